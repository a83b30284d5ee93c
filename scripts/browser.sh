#!/usr/bin/env bash
# Prints the headless browser that tests of the dashboard use, the value of RALPH_TEST_BROWSER. It installs
# Debian's chromium-headless-shell if there is none.
#
#   scripts/browser.sh
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

find_browser() {
	for program in chromium-headless-shell chromium chromium-browser google-chrome; do
		command -v "$program" && return
	done
	return 1
}

find_browser || { { (apt_install chromium-headless-shell) || apt_install chromium; } && find_browser; }

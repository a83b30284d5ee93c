#!/usr/bin/env bash
# Runs shellcheck on the files named, and installs it first where it is missing.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

have shellcheck || apt_install shellcheck
cd "$SCRIPTS/.."
shellcheck -x -P . "$@"

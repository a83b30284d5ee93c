#!/usr/bin/env bash
# Installs the real agents that tests start besides Claude Code, from npm, and prints the folder of
# their programs: the value of RALPH_TEST_AGENTS.
#
#   scripts/agents.sh
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

NPM_CPU=$(case $(dpkg --print-architecture) in arm64) echo arm64 ;; *) echo x64 ;; esac)
FOLDER=$CACHE/agents/codex-$CODEX_VERSION-gemini-$GEMINI_CLI_VERSION-opencode-$OPENCODE_PROGRAM_VERSION-copilot-$COPILOT_VERSION-node-$NODE_VERSION

# opencode's umbrella package only picks the platform's one, in an install script.
fetch() {
	have npm || apt_install npm
	say "fetching codex, gemini, opencode and copilot (npm)"
	rm -rf "$FOLDER.new"
	mkdir -p "$FOLDER.new"
	npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix "$FOLDER.new" \
		"@openai/codex@$CODEX_VERSION" "@google/gemini-cli@$GEMINI_CLI_VERSION" \
		"opencode-linux-$NPM_CPU@$OPENCODE_PROGRAM_VERSION" "@github/copilot@$COPILOT_VERSION" \
		"node-linux-$NPM_CPU@$NODE_VERSION" >&2 ||
		die "npm could not install the agents"
	mkdir "$FOLDER.new/bin"
	for program in codex gemini copilot; do
		ln -s "../node_modules/.bin/$program" "$FOLDER.new/bin/$program"
	done
	# They want a newer node than some supported systems have.
	ln -s "../node_modules/node-linux-$NPM_CPU/bin/node" "$FOLDER.new/bin/node"
	ln -s "../node_modules/opencode-linux-$NPM_CPU/bin/opencode" "$FOLDER.new/bin/opencode"
	rm -rf "$FOLDER"
	mv "$FOLDER.new" "$FOLDER"
}

[ -x "$FOLDER/bin/opencode" ] || fetch
printf '%s\n' "$FOLDER/bin"

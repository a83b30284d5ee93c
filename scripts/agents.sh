#!/usr/bin/env bash
# Installs the agents that tests use besides Claude Code from npm, and prints the directory of their
# programs, the value of RALPH_TEST_AGENTS.
#
#   scripts/agents.sh
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

NPM_CPU=$(case $(dpkg --print-architecture) in arm64) echo arm64 ;; *) echo x64 ;; esac)
FOLDER=$CACHE/agents/codex-$CODEX_VERSION-gemini-$GEMINI_CLI_VERSION-opencode-$OPENCODE_PROGRAM_VERSION-copilot-$COPILOT_VERSION-node-$NODE_VERSION

# The package opencode-ai only selects one of these in an install script.
fetch() {
	have npm || apt_install npm
	say "fetching codex, gemini, opencode and copilot (npm)"
	mkdir -p "${FOLDER%/*}"
	local new # of our own: somebody else may be fetching them, too
	new=$(mktemp -d "$FOLDER.XXXXXX")
	npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix "$new" \
		"@openai/codex@$CODEX_VERSION" "@google/gemini-cli@$GEMINI_CLI_VERSION" \
		"opencode-linux-$NPM_CPU@$OPENCODE_PROGRAM_VERSION" "@github/copilot@$COPILOT_VERSION" \
		"node-linux-$NPM_CPU@$NODE_VERSION" >&2 ||
		{ rm -rf "$new"; die "npm could not install the agents"; }
	chmod 755 "$new"
	mkdir "$new/bin"
	for program in codex gemini copilot; do
		ln -s "../node_modules/.bin/$program" "$new/bin/$program"
	done
	# They require a newer node than some supported systems provide.
	ln -s "../node_modules/node-linux-$NPM_CPU/bin/node" "$new/bin/node"
	ln -s "../node_modules/opencode-linux-$NPM_CPU/bin/opencode" "$new/bin/opencode"
	# The loser of a race keeps the existing directory.
	[ -x "$FOLDER/bin/opencode" ] || rm -rf "$FOLDER"
	mv --no-target-directory "$new" "$FOLDER" 2>/dev/null || rm -rf "$new"
}

[ -x "$FOLDER/bin/opencode" ] || fetch
printf '%s\n' "$FOLDER/bin"

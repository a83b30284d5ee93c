#!/usr/bin/env bash
# Imports the base images of the end-to-end tests into the test engines, without a registry.
#
#   scripts/test-images.sh [ENGINE ...]         build and import missing images; "all" is the default
#   scripts/test-images.sh --env                print the variables that name them
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

base=ralph-test-base:$BASE_SUITE
claude=ralph-test-claude:$CLAUDE_CODE_VERSION

if [ "${1:-}" = --env ]; then
	printf 'RALPH_TEST_BASE="%s"\nRALPH_TEST_CLAUDE_BASE="%s"\n' "$base" "$claude"
	exit 0
fi

scanner=ghcr.io/gitleaks/gitleaks:$GITLEAKS_VERSION

# The program is at the same path as in the published image of gitleaks.
import_scanner() {
	! docker image inspect "$scanner" >/dev/null 2>&1 || return 0
	say "importing $scanner"
	tar --create --directory "$TOOLS" --owner root:0 --group root:0 --transform 's,^,usr/bin/,' gitleaks |
		docker import --change 'ENTRYPOINT ["gitleaks"]' - "$scanner" >/dev/null ||
		die "docker import of gitleaks failed"
}

import_into() {
	"$SCRIPTS/base-image.sh" "$base" "unix:///run/docker-ralph/$1.sock" &&
		"$SCRIPTS/claude-image.sh" "$claude" "unix:///run/docker-ralph/$1.sock" &&
		DOCKER_HOST=unix:///run/docker-ralph/$1.sock import_scanner
}

# Build the archives first, one at a time: parallel imports would build them twice.
"$SCRIPTS/base-image.sh" --archive >/dev/null
"$SCRIPTS/claude-image.sh" --archive >/dev/null
"$SCRIPTS/tools.sh" gitleaks >/dev/null
[ "${1:-all}" != all ] || set -- debian moby debian3 moby3
imports=()
for engine in "${@:2}"; do
	import_into "$engine" &
	imports+=($!)
done
import_into "$1"
for import in "${imports[@]}"; do wait "$import"; done

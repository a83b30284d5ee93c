#!/usr/bin/env bash
# Puts the base images that the end-to-end tests need into the test engines, without a registry.
#
#   scripts/test-images.sh [debian|moby|all]    make and import what is missing
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

# The image that gitleaks' makers publish has the program at the same place.
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

# Archives first, one after the other: two imports at once would both try to make them.
"$SCRIPTS/base-image.sh" --archive >/dev/null
"$SCRIPTS/claude-image.sh" --archive >/dev/null
"$SCRIPTS/tools.sh" gitleaks >/dev/null
case ${1:-all} in
all)
	import_into debian &
	import_into moby
	wait $!
	;;
*) import_into "$1" ;;
esac

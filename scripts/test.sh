#!/usr/bin/env bash
# Runs every test of the module. Two real engines are set up for it while the tests compile, and
# stopped afterwards, unless they ran before.
#
#   scripts/test.sh [GO TEST ARGUMENT ...]
#
# The tests find in their environment:
#   RALPH_TEST_ENGINES       debian=unix:///…,moby=unix:///…
#   RALPH_TEST_GATEWAYS      debian=10.213.1.1,moby=10.213.2.1: this machine, as containers see it
#   RALPH_TEST_BASE          image with git, in both engines
#   RALPH_TEST_CLAUDE_BASE   the same with the real Claude Code CLI
#   RALPH_TEST_PLUGIN        the docker-ralph under test
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

cd "$SCRIPTS/.."
need_go
# The race detector needs a C compiler.
apt_install gcc libc6-dev git curl ca-certificates

log=$(mktemp)
finish() {
	local status=$?
	rm -f "$log"
	if [ -n "${stop_engines:-}" ]; then
		scripts/engine.sh down || true
	fi
	exit $status
}
trap finish EXIT

engines_running() {
	! scripts/engine.sh status 2>&1 | grep -q 'not running'
}

# Images are made on both engines at once; each waits for its own engine alone.
set_up() {
	scripts/engine.sh build all && scripts/engine.sh up all && scripts/test-images.sh
}

compile_tests() {
	go build ./... && go vet ./... && go test -race -run '^$' ./... >/dev/null
}

engines_running || stop_engines=yes
started=$SECONDS
set_up >"$log" 2>&1 &
setup=$!
# A compile error is reported by the real run below, in its own words.
compile_tests >/dev/null 2>&1 || true
if ! wait $setup; then
	cat "$log" >&2
	die "the test engines could not be set up"
fi
cat "$log" >&2
say "engines and test binaries ready after $((SECONDS - started)) s"

set -a
eval "$(scripts/engine.sh env)"
eval "$(scripts/test-images.sh --env)"
set +a
export RALPH_TEST_PLUGIN=$PWD/bin/docker-ralph
[ $# -gt 0 ] || set -- ./...
go test -race -shuffle=on -timeout 20m "$@"

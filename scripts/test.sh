#!/usr/bin/env bash
# Runs all tests on real engines, which are started while the tests compile and stopped afterwards unless
# they ran before: Debian's, and with ENGINES=all the current moby with gVisor too. For each there is
# another one like it on another machine.
#
#   scripts/test.sh [./e2e] [GO TEST ARGUMENT ...]
#
# Environment of the tests:
#   RALPH_TEST_ENGINES       debian=unix:///…,moby=unix:///…
#   RALPH_TEST_REMOTE_ENGINES  debian3=unix:///…,moby3=unix:///…, with their sockets on this machine
#   RALPH_TEST_TLS           debian3=10.213.6.2:2376,…: where these listen for clients
#   RALPH_TEST_CERTS         as DOCKER_CERT_PATH, for these
#   RALPH_TEST_GATEWAYS      debian=10.213.1.1,moby=10.213.2.1,…: this machine, as containers see it
#   RALPH_TEST_SSH           directory of an SSH server, for engines that are reached by ssh://
#   RALPH_TEST_BASE          image with git, in all engines
#   RALPH_TEST_CLAUDE_BASE   the same with the real Claude Code CLI
#   RALPH_TEST_AGENTS        directory of further real agents
#   RALPH_TEST_BROWSER       a headless browser
#   RALPH_TEST_PLUGIN        the docker-ralph under test
#   RALPH_TEST_DIST          the release under test, see "make test-dist"
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
# shellcheck source=scripts/engine/session.sh
. "$SCRIPTS/engine/session.sh"

cd "$SCRIPTS/.."
need_go
# gcc is for the race detector, openssh-client for tests that sign commits.
apt_install gcc libc6-dev git ca-certificates openssh-client
RALPH_TEST_BROWSER=$("$SCRIPTS/browser.sh")
export RALPH_TEST_BROWSER

# A test that hangs ends with its stacks before the time limit of CI.
limit=40m
[ "${ENGINES:-}" != all ] || limit=180m

# End-to-end tests start docker-ralph, which is not built with the race detector: they are compiled with the
# flags of the build, so that nothing is compiled twice.
test_e2e() {
	CGO_ENABLED=0 go test -trimpath -vet=off -shuffle=on -timeout "$limit" "$@" ./e2e
}

# SQLite is C translated to Go, ten times slower with the race detector, which looks for races in our code. Tests
# start themselves as other processes: the second that each would wait at its exit, for other reports, is most of
# the time of some packages.
export GORACE=atexit_sleep_ms=0
race=(-race "-gcflags=modernc.org/...=-race=false")

# "make lint" has vet, which would look at all dependencies here.
test_unit() {
	go test "${race[@]}" -vet=off -shuffle=on -timeout "$limit" "$@"
}

compile() {
	CGO_ENABLED=0 go test -trimpath -vet=off -c -o /dev/null ./e2e
	go build "${race[@]}" ./...
}

started=$SECONDS
# The engines run for minutes only: do not spend CPU time on garbage collection.
export session_gogc=off session_memory=1GiB
case ${ENGINES:-debian} in
all) session_begin all ;;
*) session_begin "${ENGINES:-debian}" "${ENGINES:-debian}3" ;;
esac
# Compile errors are reported by "go test" below.
compile >/dev/null 2>&1 || true
session_ready
say "engines ready after $((SECONDS - started)) s"

case ${1:-} in
"") ;;
./e2e)
	test_e2e "${@:2}"
	exit
	;;
*)
	test_unit -p 2 "$@"
	exit
	;;
esac

# End-to-end tests use all cores by themselves. The other packages run two at a time, the slowest first.
status=0
test_e2e || status=1
say "end-to-end tests finished after $((SECONDS - started)) s"
mapfile -t others < <(go list ./... | grep -v '/e2e$')
test_unit -p 2 ./projectimage ./lifecycle/container ./ralph/cli ./gitsync ./lifecycle/microvm \
	./internal/testutil/sandboxcli "${others[@]}" || status=1
say "all tests finished after $((SECONDS - started)) s"
exit $status

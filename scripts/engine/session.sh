# shellcheck shell=bash
# Test engines for the duration of one script: started in the background, stopped at the end unless
# they ran before. Sourced by scripts/test.sh and scripts/bench.sh.

# session_begin ENGINE ...
session_begin() {
	session_engines=("$@")
	session_log=$(mktemp)
	session_stop=
	# No pipe: grep would exit before engine.sh has printed everything, which counts as a failure.
	case $("$SCRIPTS/engine.sh" status "${session_engines[@]}" 2>&1) in
	*"not running"*) session_stop=yes ;;
	esac
	trap session_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	session_set_up >"$session_log" 2>&1 &
	session_pid=$!
}

session_set_up() {
	"$SCRIPTS/agents.sh" >/dev/null && GOGC=${session_gogc:-} GOMEMLIMIT=${session_memory:-} "$SCRIPTS/engine.sh" up "${session_engines[@]}" && session_tidy &&
		"$SCRIPTS/test-images.sh" "${session_engines[@]}"
}

# Engines that ran before may be in use by others.
session_tidy() {
	[ -z "$session_stop" ] || "$SCRIPTS/engine.sh" tidy "${session_engines[@]}"
}

# Waits for engines and images, and exports the variables that name them.
session_ready() {
	local failed=
	wait "$session_pid" || failed=yes
	cat "$session_log" >&2
	[ -z "$failed" ] || die "the test engines could not be set up"
	set -a
	eval "$("$SCRIPTS/engine.sh" env "${session_engines[@]}")"
	eval "$("$SCRIPTS/test-images.sh" --env)"
	set +a
	RALPH_TEST_AGENTS=$("$SCRIPTS/agents.sh")
	export RALPH_TEST_AGENTS
	export RALPH_TEST_PLUGIN=$PWD/bin/docker-ralph
}

session_end() {
	local status=$?
	trap - EXIT
	wait "$session_pid" 2>/dev/null || true
	rm -f "$session_log"
	[ -z "$session_stop" ] || "$SCRIPTS/engine.sh" down all || true
	exit $status
}

# shellcheck shell=bash
# What test runs leave behind on an engine, among them those that were killed. An engine with containerd's
# store looks at every image and every cached step whenever something is removed: after a day of test runs
# that is a quarter of all work. Sourced by scripts/engine.sh.

# Images that take minutes to make, or are made outside of the engine.
KEPT_IMAGES='^(ralph-test-base|ralph-test-claude|ghcr\.io/gitleaks/gitleaks|agent-loop-sandbox-(claude|codex|copilot|gemini|opencode)):'

# tidy ENGINE
tidy() {
	local said docker=(docker -H "unix://$(engine_socket "$1")")
	engine_answers "$1" || die "the $1 engine does not run"
	"${docker[@]}" ps --all --quiet | xargs --no-run-if-empty "${docker[@]}" rm --force --volumes >/dev/null
	"${docker[@]}" network prune --force >/dev/null
	"${docker[@]}" volume ls --quiet | xargs --no-run-if-empty "${docker[@]}" volume rm >/dev/null
	# One that cannot be removed is no reason to keep the others.
	"${docker[@]}" images --format '{{.Repository}}:{{.Tag}}' | grep -v ':<none>$' | grep -vE "$KEPT_IMAGES" |
		xargs --no-run-if-empty "${docker[@]}" rmi --force >/dev/null 2>&1 || true
	"${docker[@]}" image prune --force >/dev/null
	said=$("${docker[@]}" builder prune --all --force --filter until=1h 2>&1) || die "$1: $said"
	say "$1: tidied"
}

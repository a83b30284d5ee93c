# shellcheck shell=bash
# Removes leftovers of test runs from an engine. With containerd's image store, every removal walks all
# images and cached steps, which slows down the tests. Sourced by scripts/engine.sh.

# Images that take minutes to build, or are built outside of the engine.
KEPT_IMAGES='^(ralph-test-base|ralph-test-claude|ghcr\.io/gitleaks/gitleaks|agent-loop-sandbox-(claude|codex|copilot|gemini|opencode)):'

# tidy ENGINE
tidy() {
	local said docker=(docker -H "unix://$(engine_socket "$1")")
	engine_answers "$1" || die "the $1 engine is not running"
	"${docker[@]}" ps --all --quiet | xargs --no-run-if-empty "${docker[@]}" rm --force --volumes >/dev/null
	"${docker[@]}" network prune --force >/dev/null
	"${docker[@]}" volume ls --quiet | xargs --no-run-if-empty "${docker[@]}" volume rm >/dev/null
	# Continue with the others if one cannot be removed.
	"${docker[@]}" images --format '{{.Repository}}:{{.Tag}}' | grep -v ':<none>$' | grep -vE "$KEPT_IMAGES" |
		xargs --no-run-if-empty "${docker[@]}" rmi --force >/dev/null 2>&1 || true
	"${docker[@]}" image prune --force >/dev/null
	# All of it: after an engine was killed, Docker 20.10's cache refers to layers that do not exist.
	said=$("${docker[@]}" builder prune --all --force 2>&1) || die "$1: $said"
	say "$1: tidied"
}

# shellcheck shell=bash
# The example repository and the run of the loop in it. Sourced.

# The base of the shell agent's image, as projectimage/agents.go has it.
UPSTREAM_BASE=debian:bookworm-slim
LOCAL_BASE=docker-ralph-base:$BASE_SUITE
# shellcheck disable=SC2034 # read by scripts/quickstart.sh
CLAUDE_BASE=docker-ralph-claude:$CLAUDE_CODE_VERSION

# Sets BASE_OPTIONS: empty if the upstream base can be pulled.
provide_base() {
	BASE_OPTIONS=()
	if as_owner docker image inspect "$UPSTREAM_BASE" >/dev/null 2>&1; then
		return 0
	fi
	say "pulling $UPSTREAM_BASE"
	if as_owner timeout 600 docker pull -q "$UPSTREAM_BASE" >/dev/null 2>&1; then
		return 0
	fi
	say "$UPSTREAM_BASE cannot be pulled: building $LOCAL_BASE from Debian packages"
	as_owner mkdir -p "$RALPH_CACHE/images"
	"$SCRIPTS/base-image.sh" --archive >/dev/null
	as_owner "$SCRIPTS/base-image.sh" "$LOCAL_BASE"
	BASE_OPTIONS=(--base "$LOCAL_BASE")
}

# Prints the first unused name, so that no existing directory is changed.
free_folder() {
	local folder=$1 number=1
	while [ -e "$folder" ] || [ -e "$folder.git" ]; do
		number=$((number + 1))
		folder=$1-$number
	done
	printf '%s\n' "$folder"
}

example_git() { as_owner git -C "$EXAMPLE" "$@"; }

# docker ralph requires a remote "origin": a bare repository is enough.
make_example() {
	[ "$EXAMPLE" = "$WANTED_EXAMPLE" ] || say "$WANTED_EXAMPLE exists: using $EXAMPLE"
	as_owner git init -q --bare -b main "$EXAMPLE.git"
	as_owner git init -q -b main "$EXAMPLE"
	as_owner cp -r "$SCRIPTS/quickstart/example/." "$EXAMPLE"
	if ! example_git config user.email >/dev/null; then
		example_git config user.name "$OWNER"
		example_git config user.email "$OWNER@$(uname -n)"
	fi
	example_git remote add origin "$EXAMPLE.git"
	example_git add -A
	example_git commit -q -m "A spec, and nothing else yet"
	example_git push -q -u origin main
}

docker_ralph() {
	say ""
	say "\$ docker ralph $*"
	as_owner env -C "$EXAMPLE" docker ralph "$@"
}

run_example() {
	local before after
	before=$(example_git rev-list --count HEAD)
	docker_ralph "${BASE_OPTIONS[@]}" plan
	docker_ralph "${BASE_OPTIONS[@]}" build -n 3
	after=$(example_git rev-list --count HEAD)
	say ""
	say "\$ git log --oneline"
	example_git --no-pager log --oneline
	[ $((after - before)) = 3 ] ||
		die "expected 3 commits of the loop, got $((after - before)): see \"docker ralph task list\" in $EXAMPLE"
}

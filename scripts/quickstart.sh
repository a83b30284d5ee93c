#!/usr/bin/env bash
# From nothing to three commits made by the loop, on a Debian or Ubuntu machine, as root or with sudo.
#
#   scripts/quickstart.sh [--yes] [FOLDER]
#
# FOLDER is where the example goes (default ~/ralph-example). --yes asks nothing; so does a standard
# input that is no terminal.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
# shellcheck source=scripts/quickstart/owner.sh
. "$SCRIPTS/quickstart/owner.sh"
# shellcheck source=scripts/quickstart/engine.sh
. "$SCRIPTS/quickstart/engine.sh"
# shellcheck source=scripts/quickstart/example.sh
. "$SCRIPTS/quickstart/example.sh"

usage() {
	say "usage: scripts/quickstart.sh [--yes] [FOLDER]"
	exit 2
}

# A Go that can fetch the one that go.mod asks for is enough.
find_missing() {
	local packages=(git ca-certificates)
	GO_MISSING=no
	if ! as_owner "$SCRIPTS/go.sh" --check >/dev/null; then
		GO_MISSING=yes
		have go || packages+=(golang-go)
	fi
	MISSING=$(apt_missing "${packages[@]}")
}

provide_go() {
	local go
	go=$(as_owner "$SCRIPTS/go.sh") || exit 1
	PATH=$(dirname "$go"):$PATH
}

announce() {
	say "This will:"
	case $ENGINE_TASK in
	install) say "  - install a Docker Engine: docker.io with apt-get, because none answers here, and start it" ;;
	start) say "  - start the Docker Engine that is installed here" ;;
	access) say "  - use the engine's group for this run: $OWNER is not in it" ;;
	none) say "  - use the Docker Engine that answers here" ;;
	esac
	[ -z "$MISSING" ] || say "  - install ${MISSING//$'\n'/ } with apt-get"
	[ $GO_MISSING = no ] || say "  - fetch the version of Go that builds docker-ralph into $RALPH_CACHE"
	say "  - build docker-ralph and install it for $OWNER: $DOCKER_SETTINGS/cli-plugins/docker-ralph"
	say "  - get a base image: $UPSTREAM_BASE, or one made from Debian's packages where no registry answers"
	say "  - make an example repository, $EXAMPLE, and run \"docker ralph build -n 3\" in it"
}

# Building and running need no consent; changing the machine does.
confirm() {
	local answer
	if [ "$assume_yes" = yes ] || [ ! -t 0 ]; then
		return 0
	fi
	case $ENGINE_TASK in none | access) [ -n "$MISSING" ] || return 0 ;; esac
	read -r -p "Go on? [y/N] " answer
	case $answer in [yY]*) ;; *) die "nothing was changed" ;; esac
}

what_next() {
	local options="${BASE_OPTIONS[*]:+ ${BASE_OPTIONS[*]}}" claude=""
	if [ -n "$options" ]; then
		claude=" --base $CLAUDE_BASE"
	fi
	cat >&2 <<-TEXT

		Three tasks, three commits, made by agent "shell" inside a sandbox. Look around:

		  cd $EXAMPLE
		  docker ralph$options task list
		  docker ralph --help

		With a real agent, in any repository that has an "origin" and a folder specs/:

		  export ANTHROPIC_API_KEY=...
		  docker ralph --agent claude$claude plan
		  docker ralph --agent claude$claude build -n 3
	TEXT
	if [ -n "$claude" ]; then
		say ""
		say "Where no registry answers, scripts/claude-image.sh $CLAUDE_BASE makes that base with the claude from npm."
	fi
	if [ -n "$SOCKET_GROUP" ]; then
		say ""
		say "$OWNER may not use Docker without sudo yet: sudo usermod -aG docker $OWNER, then log in again."
	fi
}

assume_yes=no
WANTED_EXAMPLE=$OWNER_HOME/ralph-example
for argument in "$@"; do
	case $argument in
	--yes) assume_yes=yes ;;
	-*) usage ;;
	*) WANTED_EXAMPLE=$(realpath -m "$argument") ;;
	esac
done

need_apt
look_at_engine
EXAMPLE=$(free_folder "$WANTED_EXAMPLE")
find_missing
announce
confirm

mapfile -t packages <<<"$MISSING"
[ -z "$MISSING" ] || apt_install "${packages[@]}"
provide_go
provide_engine
as_owner make -C "$SCRIPTS/.." install
provide_base
make_example
run_example
what_next

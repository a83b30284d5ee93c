#!/usr/bin/env bash
# Sets up everything on a Debian or Ubuntu machine and runs a first loop. Run as root or with sudo.
#
#   scripts/quickstart.sh [--yes] [DIRECTORY]
#
# DIRECTORY is that of the example (default ~/ralph-example). Nothing is asked with --yes, or if standard
# input is not a terminal.
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
	say "usage: scripts/quickstart.sh [--yes] [DIRECTORY]"
	exit 2
}

# Any Go that can download the version in go.mod.
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
	install) say "  - install docker.io with apt-get and start it, because no Docker Engine is running" ;;
	start) say "  - start the installed Docker Engine" ;;
	access) say "  - use the group of the engine's socket, which $OWNER is not a member of" ;;
	none) say "  - use the running Docker Engine" ;;
	esac
	[ -z "$MISSING" ] || say "  - install ${MISSING//$'\n'/ } with apt-get"
	[ $GO_MISSING = no ] || say "  - download Go into $RALPH_CACHE"
	say "  - build docker-ralph and install it for $OWNER: $DOCKER_SETTINGS/cli-plugins/docker-ralph"
	say "  - pull the base image $UPSTREAM_BASE, or build one from Debian packages if it cannot be pulled"
	say "  - create an example repository, $EXAMPLE, and run \"docker ralph build -n 3\" in it"
}

# Only changes of the machine need consent.
confirm() {
	local answer
	if [ "$assume_yes" = yes ] || [ ! -t 0 ]; then
		return 0
	fi
	case $ENGINE_TASK in none | access) [ -n "$MISSING" ] || return 0 ;; esac
	read -r -p "Continue? [y/N] " answer
	case $answer in [yY]*) ;; *) die "canceled" ;; esac
}

what_next() {
	local claude=""
	if [ ${#BASE_OPTIONS[@]} -gt 0 ]; then
		claude=" --base $CLAUDE_BASE"
	fi
	cat >&2 <<-TEXT

		Three tasks, three commits, made by the agent "shell" in a sandbox. Look around:

		  cd $EXAMPLE
		  docker ralph task list
		  docker ralph --help

		With Claude Code, in a repository with a commit and a remote named "origin":

		  export ANTHROPIC_API_KEY=...
		  docker ralph task create hello "Print a greeting when the program starts"
		  docker ralph --agent claude$claude build -n 1
	TEXT
	if [ -n "$claude" ]; then
		say ""
		say "Without a registry, build that base with \"scripts/claude-image.sh $CLAUDE_BASE\"."
	fi
	if [ -n "$SOCKET_GROUP" ]; then
		say ""
		say "$OWNER is not in the group docker: run \"sudo usermod -aG docker $OWNER\" and log in again."
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

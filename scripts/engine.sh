#!/usr/bin/env bash
# Sets up, starts and stops the real Docker engines that the end-to-end tests need:
#
#   debian  Docker 20.10 from Debian's packages, the oldest supported engine
#   moby    the current engine, built from the Go module proxy
#
# debian3 and moby3 are the same on another machine: they listen for TLS, and do not have the home directories
# and temporary files of this machine. "all" is these four.
#
# debian2 and moby2 are for tests that restart their engine. rootless is moby's, run by an ordinary user. "all"
# does not start these, but stops them.
#
# Each runs in its own network, mount and PID namespaces, with its own directories. Engines that already
# run on this machine are not affected, and no service is installed.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
# shellcheck source=scripts/engine/binaries.sh
. "$SCRIPTS/engine/binaries.sh"
# shellcheck source=scripts/engine/network.sh
. "$SCRIPTS/engine/network.sh"
# shellcheck source=scripts/engine/daemon.sh
. "$SCRIPTS/engine/daemon.sh"
# shellcheck source=scripts/engine/certificates.sh
. "$SCRIPTS/engine/certificates.sh"
# shellcheck source=scripts/engine/leftovers.sh
. "$SCRIPTS/engine/leftovers.sh"

usage() {
	cat >&2 <<-'TEXT'
		usage: scripts/engine.sh COMMAND [ENGINE ...]

		ENGINE is debian, moby, debian2, moby2, debian3, moby3, rootless or all, the default.

		  build    fetch and build the programs, start nothing
		  up       build, start, wait until "docker version" answers
		  down     stop the engines; their images stay
		  tidy     remove what tests left behind, but the images that take long to make
		  purge    stop the engines and delete their images, containers and volumes
		  status   what runs, where, and which version
		  env      print the variables the tests read
	TEXT
	exit 2
}

# engines COMMAND WHICH ...
engines() {
	local command=$1 which
	shift
	for which in "${@:-all}"; do
		case $which,$command in
		all,down | all,purge) echo debian moby debian2 moby2 debian3 moby3 rootless ;;
		all,*) echo debian moby debian3 moby3 ;;
		debian,* | moby,* | debian[23],* | moby[23],* | rootless,*) echo "$which" ;;
		*) usage ;;
		esac
	done
}

up() {
	exec 9>"$RUN/$1.lock"
	flock 9
	if ! engine_answers "$1"; then
		daemon_kill "$1"
		network_up "$1"
		daemon_start "$1"
	fi
	exec 9>&-
	status "$1"
}

down() {
	exec 9>"$RUN/$1.lock"
	flock 9
	daemon_stop "$1"
	network_down "$1"
	exec 9>&-
	say "$1: stopped"
}

purge() {
	down "$1"
	rm -rf "${DATA:?}/$1"
	say "$1: $DATA/$1 deleted"
}

status() {
	if engine_answers "$1"; then
		printf '%s: %s, unix://%s, host reachable from containers at %s\n' "$1" \
			"$(docker -H "unix://$(engine_socket "$1")" version --format \
				'engine {{.Server.Version}}, API {{.Server.APIVersion}}')" \
			"$(engine_socket "$1")" "$(engine_gateway "$1")"
	else
		printf '%s: not running\n' "$1"
	fi
}

print_env() {
	local engine socket engines="" remote="" gateways="" tls=""
	for engine in "$@"; do
		socket=$engine=unix://$(engine_socket "$engine")
		gateways+=${gateways:+,}$engine=$(engine_gateway "$engine")
		if is_remote "$engine"; then
			remote+=${remote:+,}$socket
			tls+=${tls:+,}$engine=$(engine_tls "$engine")
		else
			engines+=${engines:+,}$socket
		fi
	done
	printf 'RALPH_TEST_%s="%s"\n' ENGINES "$engines" REMOTE_ENGINES "$remote" GATEWAYS "$gateways" \
		TLS "$tls" CERTS "$CERTS" SSH "$SSH_TREE"
}

# Under sudo, keep the caller's cache, PATH and group (SUDO_GID), which may use the sockets.
run_as_root() {
	have sudo || die "starting an engine requires root: run this as root, or install sudo"
	exec sudo env "RALPH_CACHE=$CACHE" "PATH=$PATH" \
		"RALPH_TEST_DATA=$DATA" "RALPH_TEST_NET=$NET" "$SCRIPTS/engine.sh" "$@"
}

main() {
	umask 022
	local command=${1:-} given=("${@:2}") chosen engine
	chosen=$(engines "$command" "${given[@]}") || exit
	# shellcheck disable=SC2086 # a list of words
	set -- $chosen
	case $command in
	env) print_env "$@" && return ;;
	build | up)
		for engine in "$@"; do engine_binaries "$engine"; done
		[ "$command" = up ] || return 0
		;;
	down | purge | status | tidy) ;;
	*) usage ;;
	esac
	is_root || run_as_root "$command" "${given[@]}"
	mkdir -p "$RUN"
	for engine in "$@"; do "$command" "$engine"; done
}

main "$@"

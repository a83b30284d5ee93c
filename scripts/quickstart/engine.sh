# shellcheck shell=bash
# A Docker Engine that answers: the one that is there, else Debian's or Ubuntu's. Sourced.

ENGINE_LOG=/var/log/docker-ralph-dockerd.log

engine_answers() { as_owner docker version >/dev/null 2>&1; }

# Sets ENGINE_TASK: none, access, start or install.
look_at_engine() {
	ENGINE_TASK=install
	if have docker && engine_answers; then
		ENGINE_TASK=none
	elif have docker && [ -n "${DOCKER_HOST:-}" ]; then
		die "the engine at DOCKER_HOST=$DOCKER_HOST does not answer: start it, or unset DOCKER_HOST to use one on this machine"
	elif have docker && [ -S /var/run/docker.sock ] && as_root docker version >/dev/null 2>&1; then
		ENGINE_TASK=access
	elif have docker && have dockerd; then
		ENGINE_TASK=start
	fi
}

docker_packages() {
	local package
	for package in docker.io docker-cli iptables; do
		# docker-cli is a package of its own on some releases only.
		if apt-cache show "$package" >/dev/null 2>&1; then
			echo "$package"
		fi
	done
}

install_engine() {
	local packages
	[ -z "$(apt_missing docker-ce-cli)" ] &&
		die "Docker's own docker-ce-cli is installed here without an engine, and Debian's docker.io does not go with it: apt-get install docker-ce"
	[ -n "$(ls /var/lib/apt/lists/*_Packages* 2>/dev/null)" ] || apt_get update
	mapfile -t packages < <(docker_packages)
	apt_install "${packages[@]}"
	hash -r
}

start_engine() {
	engine_starts_answering 1 && return 0
	if [ -d /run/systemd/system ]; then
		say "starting the engine (systemctl start docker)"
		as_root systemctl start docker
	else
		start_dockerd
	fi
	engine_starts_answering 120 || die "the Docker Engine does not answer: see \"journalctl -u docker\" or $ENGINE_LOG"
}

# In a session of its own the engine outlives this script and the terminal.
start_dockerd() {
	say "starting the engine (dockerd, log in $ENGINE_LOG)"
	drop_stale_pidfile
	as_root sh -c "setsid dockerd >'$ENGINE_LOG' 2>&1 </dev/null &"
}

# Machines without systemd often keep /run over a restart, and with it a process id that means
# something else now.
drop_stale_pidfile() {
	local file=/var/run/docker.pid pid
	pid=$(as_root cat "$file" 2>/dev/null) || return 0
	if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != dockerd ]; then
		as_root rm -f "$file"
	fi
}

engine_starts_answering() {
	local tries
	for ((tries = 0; tries < $1; tries++)); do
		if as_root docker -H unix:///var/run/docker.sock version >/dev/null 2>&1; then
			return 0
		fi
		[ "$1" = 1 ] || sleep 0.5
	done
	return 1
}

# A socket that only group docker may use: this run borrows the group, the account stays as it is.
grant_access() {
	engine_answers && return 0
	# shellcheck disable=SC2034 # read in owner.sh
	SOCKET_GROUP=$(stat -c %g /var/run/docker.sock)
	engine_answers || die "$OWNER may not use the engine at /var/run/docker.sock, not even with its group"
}

provide_engine() {
	case $ENGINE_TASK in
	install) install_engine && start_engine ;;
	start) start_engine ;;
	esac
	grant_access
	say "engine: $(as_owner docker version --format '{{.Server.Version}} on {{.Server.Os}}/{{.Server.Arch}}')"
}

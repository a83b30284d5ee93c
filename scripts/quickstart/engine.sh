# shellcheck shell=bash
# Finds a running Docker Engine, or installs that of Debian or Ubuntu. Sourced.

ENGINE_LOG=/var/log/docker-ralph-dockerd.log

engine_answers() { as_owner docker version >/dev/null 2>&1; }

# Sets ENGINE_TASK: none, access, start or install.
look_at_engine() {
	ENGINE_TASK=install
	if have docker && engine_answers; then
		ENGINE_TASK=none
	elif have docker && [ -n "${DOCKER_HOST:-}" ]; then
		die "the engine at DOCKER_HOST=$DOCKER_HOST is not reachable: start it, or unset DOCKER_HOST to use a local one"
	elif have docker && [ -S /var/run/docker.sock ] && as_root docker version >/dev/null 2>&1; then
		ENGINE_TASK=access
	elif have docker && have dockerd; then
		ENGINE_TASK=start
	fi
}

docker_packages() {
	local package
	for package in docker.io docker-cli iptables; do
		# docker-cli is a separate package on some releases only.
		if apt-cache show "$package" >/dev/null 2>&1; then
			echo "$package"
		fi
	done
}

install_engine() {
	local packages
	[ -z "$(apt_missing docker-ce-cli)" ] &&
		die "docker-ce-cli is installed without an engine, and conflicts with docker.io: run \"apt-get install docker-ce\""
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
	engine_starts_answering 120 || die "the Docker Engine did not start: see \"journalctl -u docker\" or $ENGINE_LOG"
}

# In its own session, the engine outlives this script and the terminal.
start_dockerd() {
	say "starting the engine (dockerd, log in $ENGINE_LOG)"
	drop_stale_pidfile
	as_root sh -c "setsid dockerd >'$ENGINE_LOG' 2>&1 </dev/null &"
}

# Machines without systemd often keep /run over a restart, and with it a stale pidfile.
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

# The socket belongs to group docker: use the group for this run, without changing the account.
grant_access() {
	engine_answers && return 0
	# shellcheck disable=SC2034 # read in owner.sh
	SOCKET_GROUP=$(stat -c %g /var/run/docker.sock)
	engine_answers || die "$OWNER has no access to /var/run/docker.sock, even with its group"
}

provide_engine() {
	case $ENGINE_TASK in
	install) install_engine && start_engine ;;
	start) start_engine ;;
	esac
	grant_access
	say "engine: $(as_owner docker version --format '{{.Server.Version}} on {{.Server.Os}}/{{.Server.Arch}}')"
}

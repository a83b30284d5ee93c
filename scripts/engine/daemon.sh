# shellcheck shell=bash
# Starts, checks and stops the daemon of a test engine. Sourced by scripts/engine.sh.

RUN=/run/docker-ralph
# Images survive "down", so a second test run does not import them again.
DATA=${RALPH_TEST_DATA:-/var/lib/docker-ralph-test}

engine_socket() { echo "$RUN/$1.sock"; }
engine_log() { echo "$RUN/$1.log"; }

# The group that may use the socket.
socket_group() {
	if is_remote "$1"; then echo "${SUDO_GID:-1237}"; else echo "${SUDO_GID:-0}"; fi
}

# The network namespace shows what is running: pidfiles outlive their processes.
engine_pids() { ip netns pids "$(engine_netns "$1")" 2>/dev/null || true; }

engine_answers() {
	[ -S "$(engine_socket "$1")" ] && [ -n "$(engine_pids "$1")" ] &&
		timeout 10 docker -H "unix://$(engine_socket "$1")" version >/dev/null 2>&1
}

# The user of the rootless engine: the one that tests run commands as when root runs them.
ROOTLESS_USER=1234:2345

# The command that starts an engine in its namespaces, one word per line.
engine_program() {
	if [ "$1" = rootless ]; then
		printf '%s\n' "$SCRIPTS/engine/rootless.sh" "$RUN/$1" "$DATA/$1" "$ROOTLESS_USER" "$DEBIAN_TREE" "$TOOLS"
		storage_arguments "$1"
	else
		printf '%s\n' "$SCRIPTS/engine/inside.sh" "$RUN/$1" "$DATA/$1"
		engine_arguments "$1"
	fi
}

# Arguments of dockerd that differ from Docker's defaults, one per line.
engine_arguments() {
	local engine=$1 number pool
	number=$(engine_number "$engine")
	# Each engine has its own namespace, so that address ranges may overlap.
	pool=$((64 + 64 * $(engine_number "$(engine_kind "$engine")")))
	printf '%s\n' \
		-H "unix://$(engine_socket "$engine")" \
		--group "$(socket_group "$engine")" \
		--mtu "$(uplink_mtu)" \
		--bip "$NET.$((100 + number)).1/24" \
		--default-address-pool "base=$NET.$pool.0/18,size=26" \
		--exec-opt native.cgroupdriver=cgroupfs
	# gVisor, for sandboxes that ask for it.
	[ "$(engine_kind "$engine")" != moby ] ||
		printf '%s\n' --add-runtime "runsc=$MOBY_TREE/bin/runsc" --config-file "$RUN/$engine.json"
	! is_remote "$engine" || tls_arguments "$engine"
	storage_arguments "$engine"
}

# overlay cannot be mounted on overlay: the daemon would fail at the first image.
storage_arguments() {
	[ "$(stat -f -c %T "$DATA")" = overlayfs ] || return 0
	say "$DATA is on overlay: the $1 engine stores images with vfs, which is slower. Set RALPH_TEST_DATA to another directory"
	printf '%s\n' --storage-driver vfs
}

# BuildKit keeps a record of each build for two days. The tests build so much that searching the records
# would take most of the engine's time.
moby_configuration() {
	echo '{"builder": {"history": {"maxAge": "10m", "maxEntries": 50}}}'
}

# Current moby refuses clients older than API 1.44, such as Debian's 20.10. Namespaces of an engine
# outlive its restarts by tests. Another machine has its programs, but no other files of this machine's users.
engine_environment() {
	local version
	case $1 in
	*2) echo RALPH_ENGINE_STAYS=yes ;;
	debian3) echo "RALPH_ENGINE_PROGRAMS=$CACHE/engines" ;;
	*3) echo "RALPH_ENGINE_PROGRAMS=$CACHE/engines:$TOOLS" ;;
	esac
	[ "$(engine_kind "$1")" = moby ] || return 0
	version=$(docker -H unix:///nonexistent version --format '{{.Client.APIVersion}}' 2>/dev/null || true)
	[ "${version#1.}" -ge 44 ] 2>/dev/null || echo DOCKER_MIN_API_VERSION=1.41
}

daemon_start() {
	local engine=$1 arguments
	mkdir -p "$RUN" "$DATA"
	rm -f "$(engine_socket "$engine")"
	moby_configuration >"$RUN/$engine.json"
	! is_remote "$engine" || certificates "$(socket_group "$engine")"
	mapfile -t arguments < <(engine_program "$engine")
	# Files of the rootless engine are in its user's directory.
	[ "$engine" != rootless ] || ln -s "$engine/docker.sock" "$(engine_socket "$engine")"
	# Not "ip netns exec": that replaces /sys and hides the cgroups. Descriptor 9 is the lock; a daemon
	# that inherits it would never release it.
	# shellcheck disable=SC2046 # assignments
	env "PATH=$(engine_path "$engine"):$PATH" $(engine_environment "$engine") setsid \
		nsenter --net="/run/netns/$(engine_netns "$engine")" \
		unshare --mount --propagation slave --pid --fork --kill-child --mount-proc \
		"${arguments[@]}" \
		>"$(engine_log "$engine")" 2>&1 </dev/null 9>&- &
	daemon_wait "$engine" $!
}

daemon_wait() {
	local engine=$1 pid=$2 tries
	for ((tries = 0; tries < 240; tries++)); do
		if engine_answers "$engine"; then
			return 0
		fi
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.25
	done
	say "last lines of $(engine_log "$engine"):"
	tail -n 25 "$(engine_log "$engine")" >&2
	daemon_kill "$engine"
	die "the $engine engine does not answer on $(engine_socket "$engine")"
}

daemon_stop() {
	local engine=$1 pids tries
	pids=$(daemon_pids "$engine")
	# shellcheck disable=SC2086 # a list of numbers
	[ -z "$pids" ] || kill -TERM $pids 2>/dev/null || true
	for ((tries = 0; tries < 100; tries++)); do
		[ -n "$(daemon_pids "$engine")" ] || break
		sleep 0.2
	done
	daemon_kill "$engine"
}

daemon_pids() {
	local pid
	for pid in $(engine_pids "$1"); do
		case $(cat "/proc/$pid/comm" 2>/dev/null) in
		dockerd | rootlesskit) echo "$pid" ;;
		esac
	done
}

# Also ends containerd, shims and containers of a killed dockerd.
daemon_kill() {
	local engine=$1 pids
	while pids=$(engine_pids "$engine") && [ -n "$pids" ]; do
		# shellcheck disable=SC2086 # a list of numbers
		kill -KILL $pids 2>/dev/null || true
		sleep 0.1
	done
	rm -rf "${RUN:?}/$engine" "$(engine_socket "$engine")"
}

#!/usr/bin/env bash
# PID 1 of a test engine's namespaces: masks paths of the host, starts dockerd, waits. When it exits,
# the kernel kills dockerd, containerd, the shims and all containers.
#
#   inside.sh RUN_DIR DATA_DIR DOCKERD_ARGUMENT ...
#
# With RALPH_ENGINE_PROGRAMS, the engine has nothing of home directories and temporary files of the host but
# these directories, which are separated by colons.
set -euo pipefail

run=$1 data=$2
shift 2

mkdir -p "$run" "$data"

# hide_users_files_but DIRECTORY ...
hide_users_files_but() {
	local kept folder i
	kept=$(mktemp -d "$run/kept.XXXXXX")
	mount -t tmpfs tmpfs "$kept"
	for ((i = 1; i <= $#; i++)); do
		mkdir "$kept/$i"
		mount --rbind "${!i}" "$kept/$i"
	done
	for folder in /home /root /tmp /var/tmp; do
		mount -t tmpfs -o mode=1777 tmpfs "$folder"
	done
	for ((i = 1; i <= $#; i++)); do
		mkdir -p "${!i}"
		mount --rbind "$kept/$i" "${!i}"
	done
	umount --recursive "$kept"
	rmdir "$kept"
}

if [ -n "${RALPH_ENGINE_PROGRAMS:-}" ]; then
	IFS=: read -ra programs <<<"$RALPH_ENGINE_PROGRAMS"
	hide_users_files_but "$data" "${programs[@]}"
fi

# dockerd uses a containerd that it finds here. Below an empty directory, it starts its own.
mkdir -p /run/containerd
mount -t tmpfs -o mode=0711 tmpfs /run/containerd

# The engine looks up bridges in /sys, which shows the network namespace it was mounted in. Mounts below,
# such as cgroups, are kept.
host_sys=$(mktemp -d)
mount --rbind /sys "$host_sys"
mount -t sysfs sysfs /sys
for folder in fs/cgroup kernel/security; do
	if mountpoint -q "$host_sys/$folder"; then
		mount --rbind "$host_sys/$folder" "/sys/$folder"
	fi
done
umount --lazy "$host_sys"
rmdir "$host_sys"

# A resolver on the host's loopback is unreachable from this network namespace.
if grep -qE '^nameserver +127\.' /etc/resolv.conf && [ -s /run/systemd/resolve/resolv.conf ]; then
	mount --bind /run/systemd/resolve/resolv.conf "$(readlink -f /etc/resolv.conf)"
fi

# Pidfiles of a killed run.
rm -rf "$run/exec" "$run/docker.pid"

dockerd --data-root "$data" --exec-root "$run/exec" -p "$run/docker.pid" "$@" &
daemon=$!
trap 'kill -TERM $daemon 2>/dev/null || true' TERM INT
# The first wait returns on the signal, the second when the daemon exits.
status=0
wait $daemon || wait $daemon || status=$?
# A test kills the daemon and starts it again; other processes keep running, as on any machine.
while [ -n "${RALPH_ENGINE_STAYS:-}" ]; do
	sleep 3600 &
	wait || true
done
exit $status

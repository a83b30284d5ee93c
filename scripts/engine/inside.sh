#!/usr/bin/env bash
# PID 1 of a test engine's namespaces: masks paths of the host, starts dockerd, waits. When it exits,
# the kernel kills dockerd, containerd, the shims and all containers.
#
#   inside.sh RUN_DIR DATA_DIR DOCKERD_ARGUMENT ...
set -euo pipefail

run=$1 data=$2
shift 2

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

# What another machine does not have.
[ -z "${RALPH_ENGINE_HIDES:-}" ] || mount -t tmpfs tmpfs "$RALPH_ENGINE_HIDES"

# A resolver on the host's loopback is unreachable from this network namespace.
if grep -qE '^nameserver +127\.' /etc/resolv.conf && [ -s /run/systemd/resolve/resolv.conf ]; then
	mount --bind /run/systemd/resolve/resolv.conf "$(readlink -f /etc/resolv.conf)"
fi

# Pidfiles of a killed run.
rm -rf "$run/exec" "$run/docker.pid"
mkdir -p "$run" "$data"

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

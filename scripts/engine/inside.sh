#!/usr/bin/env bash
# Process 1 of a test engine's namespaces: hides what belongs to the host, starts dockerd, waits.
# When it ends, the kernel ends dockerd, containerd, the shims and every container with it.
#
#   inside.sh RUN_FOLDER DATA_FOLDER DOCKERD_ARGUMENT ...
set -euo pipefail

run=$1 data=$2
shift 2

# dockerd takes a containerd it finds here for its own. Under an empty folder it starts one itself,
# with root, state and socket below its own folders.
mkdir -p /run/containerd
mount -t tmpfs -o mode=0711 tmpfs /run/containerd

# The engine looks its bridges up in /sys, which shows the network namespace that it was mounted in.
# The cgroups and the rest that is mounted below come along.
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

# A resolver on the host's loopback is out of reach from this network namespace.
if grep -qE '^nameserver +127\.' /etc/resolv.conf && [ -s /run/systemd/resolve/resolv.conf ]; then
	mount --bind /run/systemd/resolve/resolv.conf "$(readlink -f /etc/resolv.conf)"
fi

# What a killed run left: its process ids mean something else now.
rm -rf "$run/exec" "$run/docker.pid"
mkdir -p "$run" "$data"

dockerd --data-root "$data" --exec-root "$run/exec" -p "$run/docker.pid" "$@" &
daemon=$!
trap 'kill -TERM $daemon 2>/dev/null || true' TERM INT
# The first wait ends with the signal, the second with the daemon.
status=0
wait $daemon || wait $daemon || status=$?
# A test kills the daemon and starts it again. What runs goes on meanwhile, as on any machine.
while [ -n "${RALPH_ENGINE_STAYS:-}" ]; do
	sleep 3600 &
	wait || true
done
exit $status

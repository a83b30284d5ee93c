#!/usr/bin/env bash
# PID 1 of the rootless test engine's namespaces: provides what rootless Docker requires without changing
# this machine, runs dockerd-rootless.sh as an ordinary user, waits.
#
#   rootless.sh RUN_DIR DATA_DIR USER:GROUP DEBIAN_TREE TOOLS DOCKERD_ARGUMENT ...
set -euo pipefail

run=$1 data=$2 user=${3%:*} group=${3#*:} debian=$4 tools=$5
shift 5

# shows SOURCE TARGET: caches are often in a home directory that other users may not enter.
shows() {
	if [ -d "$1" ]; then mkdir -p "$2"; else : >>"$2"; fi
	mount --bind "$1" "$2"
}

# The user may be missing here, and have no subordinate IDs.
works_for() {
	local name work file
	name=$(getent passwd "$user" | cut -d: -f1) || name=
	work=$(mktemp -d)
	cp /etc/passwd "$work"
	[ -n "$name" ] || echo "${name:=ralph-rootless}:x:$user:$group::/nonexistent:/bin/sh" >>"$work/passwd"
	for file in subuid subgid; do
		echo "$name:1879048192:65536" >"$work/$file"
	done
	for file in passwd subuid subgid; do
		[ -e "/etc/$file" ] || : >"/etc/$file"
		mount --bind "$work/$file" "/etc/$file"
	done
	rm -rf "$work"
}

# With udev, all users may use this device.
mkdir -p /dev/net
mount -t tmpfs -o mode=0755 tmpfs /dev/net
mknod -m 0666 /dev/net/tun c 10 200

rm -rf "${run:?}"
mkdir -p "$run" "$data"
works_for
shows "$tools" "$run/bin"
shows "$debian/usr/bin/tini-static" "$run/docker-init"
shows "$debian/usr/share/docker.io/contrib/dockerd-rootless.sh" "$run/dockerd-rootless.sh"
chown "$user:$group" "$run" "$data"
chmod 0700 "$run" "$data"

cd /
env -i "HOME=$data" "XDG_RUNTIME_DIR=$run" "PATH=$run/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
	DOCKERD_ROOTLESS_ROOTLESSKIT_NET=slirp4netns DOCKERD_ROOTLESS_ROOTLESSKIT_MTU=1400 \
	setpriv --reuid "$user" --regid "$group" --clear-groups \
	bash "$run/dockerd-rootless.sh" --data-root "$data/docker" --init-path "$run/docker-init" "$@" &
daemon=$!
trap 'kill -TERM $daemon 2>/dev/null || true' TERM INT
# The first wait returns on the signal, the second when the daemon exits.
wait $daemon || wait $daemon

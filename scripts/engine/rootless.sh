#!/usr/bin/env bash
# Process 1 of the rootless test engine's namespaces: shows an ordinary user what rootless Docker needs
# of a machine, without changing this one, runs dockerd-rootless.sh as that user, waits.
#
#   rootless.sh RUN_FOLDER DATA_FOLDER USER:GROUP DEBIAN_TREE TOOLS DOCKERD_ARGUMENT ...
set -euo pipefail

run=$1 data=$2 user=${3%:*} group=${3#*:} debian=$4 tools=$5
shift 5

# shows SOURCE TARGET: the caches are mostly in a home folder that nobody else may enter.
shows() {
	if [ -d "$1" ]; then mkdir -p "$2"; else : >>"$2"; fi
	mount --bind "$1" "$2"
}

# A user of that number need not exist here, nor have numbers for the users of its containers.
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

# Everybody may use this where udev has made it.
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
# The first wait ends with the signal, the second with the daemon.
wait $daemon || wait $daemon

#!/usr/bin/env bash
# PID 1 of the namespaces of a test's SSH server: adds its user, who is in the group "docker", without
# changing this machine, runs sshd until standard input ends.
#
#   sshd.sh TREE CONFIG NAME:UID:HOME DOCKER_GID
set -euo pipefail

umask 022
tree=$1 config=$2 docker=$4
IFS=: read -r name uid home <<<"$3"

work=$(mktemp -d)
cp /etc/passwd /etc/group "$work"
echo "$name:*:$uid:$uid::$home:/bin/sh" >>"$work/passwd"
printf '%s:x:%s:%s\n' "$name" "$uid" "" docker "$docker" "$name" >>"$work/group"
# sshd drops its privileges to this user.
getent passwd sshd >/dev/null || echo "sshd:*:$((uid + 1)):65534::/run/sshd:/usr/sbin/nologin" >>"$work/passwd"
mount --bind "$work/passwd" /etc/passwd
mount --bind "$work/group" /etc/group
rm -rf "$work"
mkdir -p /run/sshd
# Newer versions run further programs from here.
[ ! -e "$tree/usr/lib/openssh/sshd-session" ] || mount --bind "$tree/usr/lib/openssh" /usr/lib/openssh

"$tree/usr/sbin/sshd" -D -e -f "$config" </dev/null &
cat <&0 >/dev/null &
# When this exits, the kernel kills all connections.
wait -n

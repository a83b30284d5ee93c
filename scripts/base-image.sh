#!/usr/bin/env bash
# Makes a base image without a container registry: Debian with git, from the Debian mirror alone.
# The archive is kept in the cache folder; importing it again takes a few seconds.
#
#   scripts/base-image.sh NAME:TAG [DOCKER_HOST]
#   scripts/base-image.sh --archive        only make the archive and print its path
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

INCLUDE=ca-certificates,git
ARCHIVE=$CACHE/images/base-$BASE_SUITE-$(dpkg --print-architecture).tar
# On Ubuntu the suite is Debian's all the same: the keyring has to be named. The mirror is the one that
# mmdebstrap takes for the suite, unless RALPH_DEBIAN_MIRROR names another.
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

make_archive() {
	[ ! -f "$ARCHIVE" ] || return 0
	apt_install mmdebstrap debian-archive-keyring
	mkdir -p "$(dirname "$ARCHIVE")"
	say "making a Debian $BASE_SUITE base image (once; about half a minute)"
	# Indexes and documentation are a third of the size and of no use in a sandbox.
	as_root mmdebstrap --quiet --variant=minbase --include="$INCLUDE" --keyring="$KEYRING" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"$BASE_SUITE" "${ARCHIVE%.tar}.new.tar" ${RALPH_DEBIAN_MIRROR:+"$RALPH_DEBIAN_MIRROR"} >&2 ||
		die "mmdebstrap could not make a base image: where its mirror cannot be reached, name another in RALPH_DEBIAN_MIRROR"
	as_root chown "$(id -u):$(id -g)" "${ARCHIVE%.tar}.new.tar"
	mv "${ARCHIVE%.tar}.new.tar" "$ARCHIVE"
}

import() {
	local name=$1
	say "importing $name"
	docker import --change 'CMD ["/bin/bash"]' "$ARCHIVE" "$name" >/dev/null ||
		die "docker import of $ARCHIVE failed"
}

case ${1:-} in
'' | -h | --help) die "usage: scripts/base-image.sh NAME:TAG [DOCKER_HOST]" ;;
--archive)
	make_archive
	printf '%s\n' "$ARCHIVE"
	;;
*)
	[ -z "${2:-}" ] || export DOCKER_HOST=$2
	if docker image inspect "$1" >/dev/null 2>&1; then
		say "$1 is there already"
		exit 0
	fi
	make_archive
	import "$1"
	;;
esac

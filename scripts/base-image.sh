#!/usr/bin/env bash
# Builds a base image without a container registry: Debian with git, from a Debian mirror. The archive is
# kept in the cache.
#
#   scripts/base-image.sh NAME:TAG [DOCKER_HOST]
#   scripts/base-image.sh --archive        only build the archive and print its path
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

INCLUDE=ca-certificates,git
ARCHIVE=$CACHE/images/base-$BASE_SUITE-$(dpkg --print-architecture).tar
# The keyring has to be named on Ubuntu. RALPH_DEBIAN_MIRROR replaces the default mirror of mmdebstrap.
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

make_archive() {
	[ ! -f "$ARCHIVE" ] || return 0
	apt_install mmdebstrap debian-archive-keyring
	mkdir -p "$(dirname "$ARCHIVE")"
	say "building a Debian $BASE_SUITE base image (takes about half a minute, once)"
	# Indexes and documentation are a third of the size and of no use in a sandbox.
	as_root mmdebstrap --quiet --variant=minbase --include="$INCLUDE" --keyring="$KEYRING" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"$BASE_SUITE" "${ARCHIVE%.tar}.new.tar" ${RALPH_DEBIAN_MIRROR:+"$RALPH_DEBIAN_MIRROR"} >&2 ||
		die "mmdebstrap failed: set RALPH_DEBIAN_MIRROR if its mirror is unreachable"
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
		say "$1 exists already"
		exit 0
	fi
	make_archive
	import "$1"
	;;
esac

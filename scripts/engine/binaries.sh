# shellcheck shell=bash
# Programs of the test engines. Sourced by scripts/engine.sh.

# Debian's packages are unpacked into the cache, not installed: docker.io would start a service, and
# replace docker-ce.
DEBIAN_PACKAGES="docker.io containerd runc tini"
DEBIAN_TREE=$CACHE/engines/debian
MOBY_TREE=$CACHE/engines/moby
# An SSH server, and what gives the tests' user a home for the client. The package would start a service.
SSH_PACKAGES="openssh-server libnss-wrapper"
SSH_TREE=$CACHE/engines/ssh

engine_kind() {
	case $1 in
	rootless) echo moby ;;
	*) echo "${1%[23]}" ;;
	esac
}

# Whether an engine is that of another machine.
is_remote() { [[ $1 = *3 ]]; }

engine_path() {
	case $(engine_kind "$1") in
	debian) echo "$DEBIAN_TREE/usr/sbin:$DEBIAN_TREE/usr/bin" ;;
	moby) echo "$MOBY_TREE/bin" ;;
	esac
}

engine_binaries() {
	# libwrap0 is the one library of sshd that not every machine has.
	apt_install iptables iproute2 util-linux libdevmapper1.02.1 libseccomp2 libwrap0 openssh-client openssl ca-certificates
	debian_binaries
	ssh_binaries
	[ "$(engine_kind "$1")" != moby ] || moby_binaries
	[ "$1" != rootless ] || apt_install rootlesskit slirp4netns uidmap
}

debian_binaries() {
	[ ! -e "$DEBIAN_TREE/client/docker" ] || return 0
	local work=$CACHE/engines/debian.new
	unpack_debs "$work" "$DEBIAN_PACKAGES"
	rm -rf "$DEBIAN_TREE"
	"$work/usr/sbin/dockerd" --version >&2 ||
		die "dockerd from Debian's docker.io does not start: a library is missing"
	mkdir "$work/client"
	ln -s ../usr/bin/docker "$work/client/docker"
	# Renamed when complete, so that a killed run leaves no partial directory.
	mv "$work" "$DEBIAN_TREE"
}

ssh_binaries() {
	[ ! -e "$SSH_TREE/usr/sbin/sshd" ] || return 0
	local work=$CACHE/engines/ssh.new
	unpack_debs "$work" "$SSH_PACKAGES"
	! ldd "$work/usr/sbin/sshd" | grep 'not found' >&2 ||
		die "sshd from Debian's openssh-server does not start: a library is missing"
	cp "$work"/usr/lib/*/libnss_wrapper.so "$work/"
	mv "$work" "$SSH_TREE"
}

# unpack_debs DIRECTORY PACKAGES
unpack_debs() {
	local deb
	rm -rf "$1"
	mkdir -p "$1/debs"
	say "fetching $2 (apt-get download)"
	download_debs "$1/debs" "$2"
	for deb in "$1"/debs/*.deb; do
		dpkg-deb -x "$deb" "$1"
	done
	rm -rf "$1/debs"
}

# download_debs DIRECTORY PACKAGES
download_debs() {
	# shellcheck disable=SC2086 # a list of words
	(cd "$1" && apt-get -qq download $2 >&2 2>/dev/null) && return 0
	apt_get update
	# shellcheck disable=SC2086
	(cd "$1" && apt-get -qq download $2 >&2) ||
		die "apt-get could not download $2"
}

moby_binaries() {
	local name
	"$SCRIPTS/tools.sh" dockerd docker-proxy containerd containerd-shim-runc-v2 runc runsc >/dev/null
	mkdir -p "$MOBY_TREE/bin"
	for name in dockerd docker-proxy containerd containerd-shim-runc-v2 runc runsc; do
		ln -sfn "$TOOLS/$name" "$MOBY_TREE/bin/$name"
	done
	# The init process of "docker run --init" is written in C; Debian's is the same program.
	ln -sfn "$DEBIAN_TREE/usr/bin/tini-static" "$MOBY_TREE/bin/docker-init"
}

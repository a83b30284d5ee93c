# shellcheck shell=bash
# Messages, root, packages and directories for the other scripts. Sourced, never run.

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/versions
. "$SCRIPTS/versions"
# shellcheck source=projectimage/agents/versions
. "$SCRIPTS/../projectimage/agents/versions"

# Built tools and images live outside the checkout, so that a fresh clone reuses them.
CACHE=${RALPH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/docker-ralph}
# shellcheck disable=SC2034 # read by the scripts that source this file
TOOLS=$CACHE/tools/bin

# ip and iptables live in sbin, which is not on the PATH of ordinary Debian users. The last folder
# holds a docker command for machines without one; scripts/engine/binaries.sh puts it there.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:$CACHE/engines/debian/client

say() { printf '%s\n' "$*" >&2; }

die() {
	say "Error: $*"
	exit 1
}

# npm trusts the certificates of Node.js only, go and curl those of the system, which has a company's.
system_certificates=/etc/ssl/certs/ca-certificates.crt
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -r "$system_certificates" ]; then
	export NODE_EXTRA_CA_CERTS=$system_certificates
fi

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" = 0 ]; }

as_root() {
	if is_root; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		die "\"$1\" requires root: run this as root, or install sudo"
	fi
}

need_apt() {
	have apt-get || die "only Debian and Ubuntu are supported: apt-get is missing"
}

apt_missing() {
	local package
	for package in "$@"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s\n' "$package"
	done
}

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" </dev/null >&2
}

# Installs missing packages only, without upgrades, removals or recommended packages.
apt_install() {
	local missing
	need_apt
	mapfile -t missing < <(apt_missing "$@")
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing ${missing[*]} (apt-get)"
	apt_get install -y --no-remove --no-install-recommends "${missing[@]}" 2>/dev/null && return 0
	# Package lists of a fresh machine are absent or stale.
	apt_get update
	apt_get install -y --no-remove --no-install-recommends "${missing[@]}" ||
		die "apt-get could not install ${missing[*]}"
}

# Puts a Go that builds this module first on the PATH.
need_go() {
	local go
	go=$("$SCRIPTS/go.sh") || exit 1
	PATH=$(dirname "$go"):$PATH
	export PATH
}

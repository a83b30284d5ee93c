#!/usr/bin/env bash
# Installs the plugin for the Docker CLI of the invoking user, or removes it. Part of each release, so
# it uses no other file of the checkout. Works with the bash of macOS, which is 3.2.
set -euo pipefail

usage() {
	cat <<-'TEXT'
		Usage: scripts/install.sh [--from WHERE]
		       scripts/install.sh --uninstall

		Installs docker-ralph for your Docker CLI: into cli-plugins in DOCKER_CONFIG, or else
		in ~/.docker. Under sudo, "you" is the user who called sudo.

		  --from WHERE  install a release: a directory, a .tar.gz, or an https:// URL of either.
		                It contains docker-ralph-OS-ARCH and SHA256SUMS
		  --uninstall   remove the plugin
		  --help        print this help

		Without --from, it installs the release in its own directory, or else what
		"make build" has built.
	TEXT
}

say() { printf '%s\n' "$*" >&2; }

die() {
	say "Error: $*"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

home_of() {
	if have getent; then
		getent passwd "$1" | cut -d: -f6
	else # macOS
		dscl . -read "/Users/$1" NFSHomeDirectory | sed 's/^NFSHomeDirectory: //'
	fi
}

find_owner() {
	OWNER=$(id -un)
	local home=${HOME:-}
	if [ "$(id -u)" = 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
		OWNER=$SUDO_USER
		home=$(home_of "$OWNER")
	fi
	[ -n "${DOCKER_CONFIG:-$home}" ] || die "$OWNER has no home directory: set DOCKER_CONFIG"
	GROUP=$(id -gn "$OWNER")
	CONFIG=${DOCKER_CONFIG:-$home/.docker}
	TARGET=$CONFIG/cli-plugins/docker-ralph
	[ ! -d "$TARGET" ] || die "$TARGET is a directory: remove it, then try again"
}

# Do not run programs from another user's directory as root.
as_owner() {
	if [ "$(id -un)" != "$OWNER" ] && have sudo; then
		sudo -u "$OWNER" -- "$@"
	else
		"$@"
	fi
}

# Prints OS-ARCH as in the file names of a release.
platform() {
	local os arch
	os=$(uname -s)
	arch=$(uname -m)
	case $os in
	Linux) os=linux ;;
	Darwin)
		os=darwin
		# uname reports x86_64 under Rosetta.
		[ "$(sysctl -n hw.optional.arm64 2>/dev/null)" != 1 ] || arch=arm64
		;;
	*) die "unsupported operating system $os: see docs/install.md" ;;
	esac
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) die "unsupported architecture $arch" ;;
	esac
	printf '%s-%s\n' "$os" "$arch"
}

is_url() { [[ $1 =~ ^[A-Za-z][A-Za-z0-9+.-]*:// ]]; }

# Plain http is only safe on this machine.
is_local() {
	[[ $1 =~ ^http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/.*)?$ ]]
}

check_url() {
	case $1 in
	*[[:space:]]* | *[[:cntrl:]]* | *'?'* | *'#'*) die "\"$1\" is not the URL of a directory or a .tar.gz" ;;
	https://*) ;;
	*) is_local "$1" || die "\"$1\" is not secure: use https://" ;;
	esac
	have curl || have wget || die "fetching $1 requires curl or wget"
}

# download URL FILE. Redirects from https to anything else are not followed.
download() {
	if have curl; then
		if is_local "$1"; then
			curl -fsS --noproxy '*' --proto '=http' -o "$2" -- "$1"
		else
			curl -fsSL --proto '=https' --proto-redir '=https' --tlsv1.2 -o "$2" -- "$1"
		fi
	elif is_local "$1"; then
		wget -q --no-proxy --max-redirect=0 -O "$2" -- "$1"
	else
		download_with_wget "$1" "$2"
	fi
}

# wget would follow a redirect to plain http, so redirects are followed here, one by one.
download_with_wget() {
	local url=$1 said step
	for step in 1 2 3 4 5 6 7 8; do
		if said=$(LC_ALL=C wget -nv -S --max-redirect=0 -O "$2" -- "$url" 2>&1); then
			return 0
		fi
		url=$(printf '%s\n' "$said" | sed -n 's/^ *[Ll]ocation: *\(https:[^ ]*\).*/\1/p' | tr -d '\r' | tail -n 1)
		[ -n "$url" ] || break
	done
	say "$said"
	say "download failed at redirect $step"
	return 1
}

fetch() {
	say "fetching $1"
	download "$1" "$2" || die "$1 could not be downloaded: nothing was installed"
}

# Prints the directory of an unpacked release.
unpack() {
	local into=$WORK/archive found
	mkdir "$into"
	tar -xzf "$1" -C "$into" || die "$1 cannot be unpacked: nothing was installed"
	found=$(find "$into" -maxdepth 2 -name SHA256SUMS -type f)
	[ -n "$found" ] || die "$1 has no SHA256SUMS: nothing was installed"
	dirname "$(printf '%s\n' "$found" | head -n 1)"
}

# Copies the plugin and SHA256SUMS of a release into the working directory.
obtain() {
	local from=${1%/} name=$2
	if is_url "$1"; then
		check_url "$1"
		case $from in
		*.tar.gz | *.tgz)
			fetch "$from" "$WORK/release.tar.gz"
			from=$(unpack "$WORK/release.tar.gz")
			;;
		*)
			fetch "$from/SHA256SUMS" "$WORK/SHA256SUMS"
			fetch "$from/$name" "$WORK/$name"
			return
			;;
		esac
	elif [ -f "$from" ]; then
		from=$(unpack "$from")
	fi
	[ -d "$from" ] || die "$1 is neither a directory nor an archive of a release"
	[ -f "$from/SHA256SUMS" ] || die "$1 has no SHA256SUMS: nothing was installed"
	[ -f "$from/$name" ] || die "$1 has no $name: nothing was installed"
	cp "$from/SHA256SUMS" "$from/$name" "$WORK/"
}

sum_of() {
	if have sha256sum; then
		sha256sum <"$1" | cut -d' ' -f1
	elif have shasum; then
		shasum -a 256 <"$1" | cut -d' ' -f1
	else
		die "sha256sum or shasum is required to verify $(basename "$1")"
	fi
}

# verify NAME: SHA256SUMS has exactly one line for it.
verify() {
	local want got
	want=$(awk -v name="$1" '{ sub(/\r$/, "") } $2 == name || $2 == "*" name { print $1 }' "$WORK/SHA256SUMS")
	[[ $want =~ ^[0-9A-Fa-f]{64}$ ]] || die "SHA256SUMS has no single entry for $1: nothing was installed"
	got=$(sum_of "$WORK/$1")
	[ "$got" = "$(printf '%s' "$want" | tr 'A-F' 'a-f')" ] ||
		die "$1 has the SHA-256 $got instead of $want: nothing was installed"
}

# put FILE: installs the plugin atomically, after checking that it works on this machine.
put() {
	local folder about
	# Missing directories are created as the user, or "docker login" would fail later.
	for folder in "$CONFIG" "$CONFIG/cli-plugins"; do
		[ -d "$folder" ] || install -d -m 0700 -o "$OWNER" -g "$GROUP" "$folder"
	done
	STAGED=$CONFIG/cli-plugins/.docker-ralph.$$ # not a plugin's name for the Docker CLI
	install -m 0755 -o "$OWNER" -g "$GROUP" "$1" "$STAGED"
	about=$(as_owner "$STAGED" docker-cli-plugin-metadata) || about=
	case $about in
	*'"Vendor": "docker-ralph"'*) ;;
	*) die "$(basename "$1") does not work as a plugin on this machine: nothing was installed" ;;
	esac
	mv -f "$STAGED" "$TARGET"
	say "installed $TARGET ($(printf '%s\n' "$about" | sed -n 's/.*"Version": "\([^"]*\)".*/\1/p'))"
	try_docker
}

# Checks that the Docker CLI finds what was installed.
try_docker() {
	local docker said
	if ! have docker; then
		say "docker is not on the PATH: install the Docker CLI, then run \"docker ralph --help\""
		return
	fi
	docker=$(command -v docker)
	if said=$(as_owner env DOCKER_CONFIG="$CONFIG" PATH="$PATH" "$docker" ralph version 2>&1); then
		return
	fi
	case "$docker $(readlink "$docker" || true)" in
	*/snap/* | */bin/snap)
		say "Error: $docker is a snap, which cannot read plugins in $CONFIG"
		say "Hint: install Docker Engine in place of the snap (https://docs.docker.com/engine/install/)."
		say "      Images and volumes of the snap are not migrated"
		;;
	*)
		say "Error: $docker does not run the plugin: $(printf '%s\n' "$said" | sed -n '/./{p;q;}')"
		say "Hint: run \"docker ralph version\" as $OWNER, with the Docker CLI 20.10 or newer"
		;;
	esac
	exit 1
}

install_release() {
	local name
	name=docker-ralph-$(platform)
	obtain "$1" "$name"
	verify "$name"
	put "$WORK/$name"
}

install_built() {
	[ -x "$HERE/../bin/docker-ralph" ] || die "bin/docker-ralph is missing: run \"make install\", or pass a release with --from"
	put "$HERE/../bin/docker-ralph"
}

uninstall() {
	local other
	if [ -e "$TARGET" ] || [ -L "$TARGET" ]; then
		rm -f "$TARGET" "$CONFIG"/cli-plugins/.docker-ralph.[0-9]*
		say "removed $TARGET"
	else
		say "docker-ralph is not installed in $CONFIG/cli-plugins"
	fi
	for other in /usr/local/lib /usr/local/libexec /usr/lib /usr/libexec; do
		[ ! -e "$other/docker/cli-plugins/docker-ralph" ] ||
			say "Another one is installed for all users: $other/docker/cli-plugins/docker-ralph"
	done
	say ""
	say "Not removed: sandboxes with their volumes, networks and images; .worktrees in your repositories;"
	say "configuration and state of the plugin, with backlogs and logs, in $CONFIG/ralph."
	say "To remove sandboxes, install the plugin again, run \"docker ralph clean --all --force\" in each"
	say "repository that \"docker ralph ls --all\" lists, and \"docker ralph image prune\"."
}

do_install() {
	WORK=$(mktemp -d)
	STAGED=
	trap 'rm -rf "$WORK" ${STAGED:+"$STAGED"}' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ -n "$1" ]; then
		install_release "$1"
	elif [ -f "$HERE/SHA256SUMS" ]; then
		install_release "$HERE"
	else
		install_built
	fi
}

main() {
	local from='' action=install
	while [ $# -gt 0 ]; do
		case $1 in
		--from)
			[ -n "${2:-}" ] || die "--from requires a directory, an archive or a URL"
			from=$2
			shift
			;;
		--from=?*) from=${1#--from=} ;;
		--uninstall) action=uninstall ;;
		-h | --help)
			usage
			return
			;;
		*) die "\"$1\" is not a known option: see $0 --help" ;;
		esac
		shift
	done
	[ "$action" = install ] || [ -z "$from" ] || die "--from and --uninstall cannot be used together"
	HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
	find_owner
	if [ "$action" = uninstall ]; then
		uninstall
	else
		do_install "$from"
	fi
}

main "$@"

#!/usr/bin/env bash
# Installs the plugin where the Docker CLI of the invoking user looks for it, and removes it again.
# This file needs no other one of the checkout, so that it can lie beside the files of a release. It
# has to do with the bash of macOS, which is 3.2.
set -euo pipefail

usage() {
	cat <<-'TEXT'
		Usage: scripts/install.sh [--from WHERE]
		       scripts/install.sh --uninstall

		Installs docker-ralph for your Docker CLI: into cli-plugins in DOCKER_CONFIG, or else
		in ~/.docker. Under sudo, "you" is the user who called sudo.

		  --from WHERE  install a release: a folder, a .tar.gz, or an https:// URL of either.
		                It has docker-ralph-OS-ARCH and SHA256SUMS, which has to name its sum
		  --uninstall   remove the plugin, and say what stays
		  --help        print this

		Without --from it installs what "make build" has built. Beside a SHA256SUMS, it installs
		the release there.
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
	[ -n "${DOCKER_CONFIG:-$home}" ] || die "$OWNER has no home: say with DOCKER_CONFIG where Docker's configuration is"
	GROUP=$(id -gn "$OWNER")
	CONFIG=${DOCKER_CONFIG:-$home/.docker}
	TARGET=$CONFIG/cli-plugins/docker-ralph
	[ ! -d "$TARGET" ] || die "$TARGET is a folder: remove it, then try again"
}

# Root runs no program out of a folder of somebody else's.
as_owner() {
	if [ "$(id -un)" != "$OWNER" ] && have sudo; then
		sudo -u "$OWNER" -- "$@"
	else
		"$@"
	fi
}

# Prints OS-ARCH, as releases call it.
platform() {
	local os arch
	os=$(uname -s)
	arch=$(uname -m)
	case $os in
	Linux) os=linux ;;
	Darwin)
		os=darwin
		# A shell that is translated takes the machine for another one.
		[ "$(sysctl -n hw.optional.arm64 2>/dev/null)" != 1 ] || arch=arm64
		;;
	*) die "this script installs on Linux and macOS, not on $os: see docs/install.md" ;;
	esac
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) die "there is no docker-ralph for $arch" ;;
	esac
	printf '%s-%s\n' "$os" "$arch"
}

is_url() { [[ $1 =~ ^[A-Za-z][A-Za-z0-9+.-]*:// ]]; }

# Plain http leaves who sends the sums and the plugin to the network, unless there is none.
is_local() {
	[[ $1 =~ ^http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/.*)?$ ]]
}

check_url() {
	case $1 in
	*[[:space:]]* | *[[:cntrl:]]* | *'?'* | *'#'*) die "\"$1\" cannot be used: give the URL of a folder or of a .tar.gz" ;;
	https://*) ;;
	*) is_local "$1" || die "\"$1\" is not safe: use https://. Plain http:// is for localhost only" ;;
	esac
	have curl || have wget || die "curl or wget is needed to fetch $1: install one of them"
}

# download URL FILE. No redirect leads from https to anything else.
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

# wget would follow a redirect to plain http, so that it is led from one place to the next.
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
	say "gave up at redirect $step"
	return 1
}

fetch() {
	say "fetching $1"
	download "$1" "$2" || die "$1 could not be fetched: nothing was installed"
}

# Prints the folder in a release's archive.
unpack() {
	local into=$WORK/archive found
	mkdir "$into"
	tar -xzf "$1" -C "$into" || die "$1 cannot be unpacked: nothing was installed"
	found=$(find "$into" -maxdepth 2 -name SHA256SUMS -type f)
	[ -n "$found" ] || die "$1 has no SHA256SUMS: nothing was installed"
	dirname "$(printf '%s\n' "$found" | head -n 1)"
}

# Puts the plugin and SHA256SUMS of a release into the folder for work, where nobody else changes them.
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
	[ -d "$from" ] || die "$1 is neither a folder nor an archive of a release"
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
		die "sha256sum or shasum is needed to check $(basename "$1"): install one of them"
	fi
}

# verify NAME: exactly one line of SHA256SUMS has to name it.
verify() {
	local want got
	want=$(awk -v name="$1" '{ sub(/\r$/, "") } $2 == name || $2 == "*" name { print $1 }' "$WORK/SHA256SUMS")
	[[ $want =~ ^[0-9A-Fa-f]{64}$ ]] || die "SHA256SUMS does not have one sum of $1: nothing was installed"
	got=$(sum_of "$WORK/$1")
	[ "$got" = "$(printf '%s' "$want" | tr 'A-F' 'a-f')" ] ||
		die "$1 is not the one that SHA256SUMS names, whose sum is $want, but has $got: nothing was installed"
}

# put FILE: no call of the Docker CLI finds half a plugin or none, and one that does not work here
# never takes the place of the old one.
put() {
	local folder about
	# Folders that are missing belong to the user too, or the user's own "docker login" would fail later.
	for folder in "$CONFIG" "$CONFIG/cli-plugins"; do
		[ -d "$folder" ] || install -d -m 0700 -o "$OWNER" -g "$GROUP" "$folder"
	done
	STAGED=$CONFIG/cli-plugins/.docker-ralph.$$ # the Docker CLI takes it for no plugin
	install -m 0755 -o "$OWNER" -g "$GROUP" "$1" "$STAGED"
	about=$(as_owner "$STAGED" docker-cli-plugin-metadata) || about=
	case $about in
	*'"Vendor": "docker-ralph"'*) ;;
	*) die "$(basename "$1") does not work as a plugin on this machine: nothing was installed" ;;
	esac
	mv -f "$STAGED" "$TARGET"
	say "installed $TARGET ($(printf '%s\n' "$about" | sed -n 's/.*"Version": "\([^"]*\)".*/\1/p'))"
	have docker || say "The docker command is not on the PATH: install Docker, then try \"docker ralph --help\""
}

install_release() {
	local name
	name=docker-ralph-$(platform)
	obtain "$1" "$name"
	verify "$name"
	put "$WORK/$name"
}

install_built() {
	[ -x "$HERE/../bin/docker-ralph" ] || die "bin/docker-ralph is missing: run \"make install\", or give a release with --from"
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
			say "Another one is there for all users: $other/docker/cli-plugins/docker-ralph"
	done
	say ""
	say "These stay: sandboxes with their volumes, networks and images; .ralph and .worktrees in your"
	say "repositories; and your configuration and the plugin's state, if any, in $CONFIG/ralph."
	say "The plugin removes sandboxes: with it installed, run \"docker ralph clean --all --force\" in each"
	say "repository (\"docker ralph ls --all\" names them), and \"docker ralph image prune\". Then uninstall it."
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
			[ -n "${2:-}" ] || die "--from needs a folder, an archive or a URL"
			from=$2
			shift
			;;
		--from=?*) from=${1#--from=} ;;
		--uninstall) action=uninstall ;;
		-h | --help)
			usage
			return
			;;
		*) die "\"$1\" is not known: see $0 --help" ;;
		esac
		shift
	done
	[ "$action" = install ] || [ -z "$from" ] || die "--from and --uninstall do not go together"
	HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
	find_owner
	if [ "$action" = uninstall ]; then
		uninstall
	else
		do_install "$from"
	fi
}

main "$@"

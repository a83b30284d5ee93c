#!/usr/bin/env bash
# Installs the plugin for the Docker CLI of the invoking user, or removes it. Part of each release, so
# it uses no other file of the checkout. Works with the bash of macOS, which is 3.2.
set -euo pipefail

REPOSITORY="docker-ralph/docker-ralph"
RELEASES=https://github.com/$REPOSITORY/releases

usage() {
	cat <<-'TEXT'
		Usage: install.sh [--from WHERE]
		       install.sh --uninstall

		Installs docker-ralph for your Docker CLI: into cli-plugins in DOCKER_CONFIG, or else
		in ~/.docker. Under sudo, "you" is the user who called sudo.

		  --from WHERE  install a release: a directory or an https:// URL with SHA256SUMS and
		                docker-ralph-OS-ARCH.tar.gz, or that archive next to its SHA256SUMS
		  --uninstall   remove the plugin
		  --help        print this help

		Without --from, it installs the plugin or release in its own directory, in a checkout
		what "make build" has built, and else the latest release on GitHub.
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
	OWNER=$(id -un 2>/dev/null) || OWNER=$(id -u) # without a name
	local home=${HOME:-}
	if [ "$(id -u)" = 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
		OWNER=$SUDO_USER
		home=$(home_of "$OWNER")
	fi
	[ -n "${DOCKER_CONFIG:-$home}" ] || die "$OWNER has no home directory: set DOCKER_CONFIG"
	GROUP=$(id -g "$OWNER" 2>/dev/null) || GROUP=$(id -g)
	CONFIG=${DOCKER_CONFIG:-$home/.docker}
	TARGET=$CONFIG/cli-plugins/docker-ralph
	[ ! -d "$TARGET" ] || die "$TARGET is a directory: remove it, then try again"
}

# Do not run programs from another user's directory as root.
as_owner() {
	if [ "$(id -u)" = 0 ] && [ "$OWNER" != root ] && have sudo; then
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
	*[[:space:]]* | *[[:cntrl:]]* | *'?'* | *'#'*) die "\"$1\" is not the URL of a release" ;;
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

# obtain FROM NAME: copies a file of a release into the working directory.
obtain() {
	if is_url "$1"; then
		fetch "$1/$2" "$WORK/$2"
	else
		[ -f "$1/$2" ] || die "$1 has no $2: nothing was installed"
		cp "$1/$2" "$WORK/"
	fi
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

# verify_signature FROM NAME: the release workflow on GitHub has built the file.
verify_signature() {
	local bundle=provenance.sigstore.json workflow=$REPOSITORY/.github/workflows/release.yml verifier
	if have cosign; then
		verifier=(cosign verify-blob-attestation --new-bundle-format --type slsaprovenance1
			--certificate-oidc-issuer https://token.actions.githubusercontent.com
			--certificate-identity-regexp "^https://github\\.com/${workflow//./\\.}@refs/tags/v")
	elif gh attestation --help >/dev/null 2>&1; then
		verifier=(gh attestation verify --repo "$REPOSITORY" --signer-workflow "$workflow")
	else
		say "signature not verified: that needs cosign or gh"
		return
	fi
	if ! (obtain "$1" "$bundle") 2>/dev/null; then
		[[ $1 != "$RELEASES"/* ]] || die "$1 has no $bundle: nothing was installed"
		say "signature not verified: $1 has no $bundle"
		return
	fi
	"${verifier[@]}" --bundle "$WORK/$bundle" "$WORK/$2" >&2 || die "$2 is not signed by $workflow: nothing was installed"
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
		say "$said"
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
	local from=${1%/} name
	if [[ $from == *.tar.gz ]]; then
		name=${from##*/}
		from=$(dirname "$from")
	else
		name=docker-ralph-$(platform).tar.gz
	fi
	if is_url "$1"; then
		check_url "$1"
	else
		[ -d "$from" ] || die "$1 is neither a directory nor an archive of a release"
	fi
	obtain "$from" SHA256SUMS
	obtain "$from" "$name"
	verify "$name"
	verify_signature "$from" "$name"
	tar -xzf "$WORK/$name" -C "$WORK" || die "$name cannot be unpacked: nothing was installed"
	[ -f "$WORK/${name%.tar.gz}/docker-ralph" ] || die "$name has no docker-ralph: nothing was installed"
	put "$WORK/${name%.tar.gz}/docker-ralph"
}

# Without --from.
install_here() {
	if [ -z "$HERE" ]; then # read from a pipe
		install_release "$RELEASES/latest/download"
	elif [ -f "$HERE/SHA256SUMS" ]; then
		install_release "$HERE"
	elif [ -f "$HERE/docker-ralph" ]; then # an archive
		put "$HERE/docker-ralph"
	elif [ "${HERE##*/}" = scripts ]; then # a checkout
		[ -x "$HERE/../bin/docker-ralph" ] || die "bin/docker-ralph is missing: run \"make install\", or pass a release with --from"
		put "$HERE/../bin/docker-ralph"
	else
		install_release "$RELEASES/latest/download"
	fi
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
	say "To remove them, install the plugin again, and run these before you remove it:"
	say "  docker ralph ls --all                 # lists all sandboxes"
	say "  docker ralph clean --all --force      # in each of their repositories"
	say "  docker ralph system prune --all       # images, and what deleted repositories left"
	say "  docker volume rm ralph-guest"
	say "  docker network rm ralph-egress"
	say "  docker image rm \$(docker image ls --quiet \"docker-ralph/*\")"
	say "  rm -r \"$CONFIG/ralph\""
}

do_install() {
	WORK=$(mktemp -d)
	STAGED=
	trap 'rm -rf "$WORK" ${STAGED:+"$STAGED"}' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ -n "$1" ]; then
		install_release "$1"
	else
		install_here
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
	HERE=${BASH_SOURCE[0]:-}
	[ -z "$HERE" ] || HERE=$(cd "$(dirname "$HERE")" && pwd)
	find_owner
	if [ "$action" = uninstall ]; then
		uninstall
	else
		do_install "$from"
	fi
}

main "$@"

#!/usr/bin/env bash
# Builds a base image with the real Claude Code CLI without a container registry: the image of
# scripts/base-image.sh and the native program from npm.
#
#   scripts/claude-image.sh NAME:TAG [DOCKER_HOST]
#   scripts/claude-image.sh --archive        only build the archive and print its path
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

NPM_CPU=$(case $(dpkg --print-architecture) in arm64) echo arm64 ;; *) echo x64 ;; esac)
PACKAGE=@anthropic-ai/claude-code-linux-$NPM_CPU
FOLDER=$CACHE/claude/$CLAUDE_CODE_VERSION
ARCHIVE=$CACHE/images/claude-$CLAUDE_CODE_VERSION-$NPM_CPU.tar

# The package of a platform contains a program that needs no node.
fetch_claude() {
	local program=$FOLDER/node_modules/$PACKAGE/claude
	if [ ! -x "$program" ]; then
		have npm || apt_install npm
		say "fetching $PACKAGE@$CLAUDE_CODE_VERSION (npm)"
		mkdir -p "$FOLDER"
		npm install --silent --no-save --ignore-scripts --prefix "$FOLDER" \
			"$PACKAGE@$CLAUDE_CODE_VERSION" >&2 ||
			die "npm could not install $PACKAGE@$CLAUDE_CODE_VERSION"
	fi
	[ -x "$program" ] || die "$PACKAGE@$CLAUDE_CODE_VERSION has no program named claude"
	printf '%s\n' "$program"
}

make_archive() {
	[ ! -f "$ARCHIVE" ] || return 0
	local base program
	base=$("$SCRIPTS/base-image.sh" --archive)
	program=$(fetch_claude)
	cp --reflink=auto "$base" "$ARCHIVE.new"
	tar --append --file "$ARCHIVE.new" --owner root:0 --group root:0 --mode 0755 \
		--directory "$(dirname "$program")" --transform 's,^,./usr/local/bin/,' claude
	mv "$ARCHIVE.new" "$ARCHIVE"
}

import() {
	say "importing $1"
	docker import --change 'CMD ["/bin/bash"]' "$ARCHIVE" "$1" >/dev/null ||
		die "docker import of $ARCHIVE failed"
}

case ${1:-} in
'' | -h | --help) die "usage: scripts/claude-image.sh NAME:TAG [DOCKER_HOST]" ;;
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

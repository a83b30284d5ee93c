#!/usr/bin/env bash
# Prints the path of a Go that can build this module: the one on the PATH if it is new enough, or else
# the version in go.mod, downloaded into the cache as a module that Go's checksum database verifies. Any
# Go of a distribution can download it.
#
#   scripts/go.sh [--check]
#
# --check fails if something has to be downloaded, and changes nothing.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
cd "$SCRIPTS/.."

want=$(awk '$1 == "go" { print $2 }' go.mod)

# In the checkout, Go 1.21 and later download the version in go.mod.
good_enough() {
	local has
	has=$("$1" version 2>/dev/null) || return 1
	has=${has#go version go}
	printf '%s\n' "$want" "${has%% *}" | sort -V -C
}

fetch() {
	local with=$1 module folder
	module=golang.org/toolchain@v0.0.1-go$want.linux-$("$with" env GOARCH)
	say "fetching Go $want into $CACHE"
	mkdir -p "$CACHE/toolchain"
	(cd "$CACHE/toolchain" && env -u GOFLAGS GOMODCACHE="$CACHE/toolchain" "$with" mod download "$module") ||
		die "Go $want could not be downloaded: install it from https://go.dev/doc/install"
	folder=$CACHE/toolchain/$module
	# Files of modules are not executable, and modules are not nested.
	chmod -R u+w "$folder"
	find "$folder" -name _go.mod -execdir mv {} go.mod \;
	chmod a+x "$folder"/bin/* "$folder"/pkg/tool/*/*
	ln -sfn "$folder" "$CACHE/go"
}

for candidate in go /usr/local/go/bin/go "$CACHE/go/bin/go"; do
	if have "$candidate" && good_enough "$candidate"; then
		command -v "$candidate"
		exit 0
	fi
done
[ "${1:-}" != --check ] || exit 1
have go || apt_install golang-go ca-certificates
if ! good_enough go; then
	fetch go
	good_enough "$CACHE/go/bin/go" || die "the Go in $CACHE/go does not work"
	echo "$CACHE/go/bin/go"
	exit 0
fi
command -v go

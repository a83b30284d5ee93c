#!/usr/bin/env bash
# Prints the path of a Go that can build this module. That is the one on the PATH, unless there is
# none or it is too old; then the version of go.mod is fetched once, as a module that Go's checksum
# database vouches for, into the cache folder. The distribution's Go, however old, can do that.
#
#   scripts/go.sh [--check]
#
# --check changes nothing, and fails where something would have to be fetched.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
cd "$SCRIPTS/.."

want=$(awk '$1 == "go" { print $2 }' go.mod)

# Asked in the checkout: a Go since 1.21 fetches the version of go.mod by itself.
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
		die "Go $want could not be fetched: install it as https://go.dev/doc/install says, then try again"
	folder=$CACHE/toolchain/$module
	# Modules have no executable files, and no module may lie within another.
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

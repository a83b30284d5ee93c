#!/usr/bin/env bash
# Builds tools written in Go into the cache and prints their paths. A tool is rebuilt when its line in
# scripts/versions changes.
#
#   scripts/tools.sh golangci-lint [NAME ...]
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

usage() {
	say "usage: scripts/tools.sh NAME ..."
	say "names: golangci-lint gotestsum nfpm buildx gitleaks dockerd docker-proxy containerd containerd-shim-runc-v2 runc runsc"
	exit 2
}

# Prints "package@version flags" of a tool, which is also the stamp of its build.
recipe() {
	case $1 in
	golangci-lint) echo "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI_LINT_VERSION" ;;
	gotestsum) echo "gotest.tools/gotestsum@$GOTESTSUM_VERSION" ;;
	nfpm) echo "github.com/goreleaser/nfpm/v2/cmd/nfpm@$NFPM_VERSION" ;;
	gitleaks) echo "github.com/zricethezav/gitleaks/v8@$GITLEAKS_VERSION" ;;
	buildx) echo "github.com/docker/buildx/cmd/buildx@$BUILDX_VERSION" ;;
	# A build from the module proxy would report the version "library-import".
	dockerd)
		echo "github.com/moby/moby/v2/cmd/dockerd@$MOBY_VERSION" \
			"-ldflags=-X=github.com/moby/moby/v2/dockerversion.Version=29.0.0-$MOBY_VERSION"
		;;
	docker-proxy) echo "github.com/moby/moby/v2/cmd/docker-proxy@$MOBY_VERSION" ;;
	containerd | containerd-shim-runc-v2)
		echo "github.com/containerd/containerd/v2/cmd/$1@$CONTAINERD_VERSION"
		;;
	# Without this tag containers fail with "seccomp not supported".
	runc) echo "github.com/opencontainers/runc@$RUNC_VERSION -tags=seccomp" ;;
	# Statically linked: its sandbox has no libraries.
	runsc) echo "gvisor.dev/gvisor/runsc@$GVISOR_VERSION" ;;
	*) usage ;;
	esac
}

build() {
	local name=$1 want stamp package flags cgo=0
	want="$(recipe "$name") -trimpath"
	stamp=$CACHE/tools/stamp/$name
	if [ -x "$TOOLS/$name" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
		return 0
	fi
	need_go
	if [ "$name" = runc ]; then
		cgo=1
		apt_install gcc libc6-dev libseccomp-dev pkg-config
	fi
	say "building $want"
	read -r package flags <<<"$want"
	mkdir -p "$TOOLS" "$CACHE/tools/stamp"
	# GOFLAGS of the caller, such as -mod=vendor, do not apply to tools.
	# The same flags as docker-ralph, so that shared packages are compiled once.
	# shellcheck disable=SC2086 # flags are words
	CGO_ENABLED=$cgo GOFLAGS=-buildvcs=false GOBIN=$TOOLS go install $flags "$package" ||
		die "building $package failed"
	printf '%s\n' "$want" >"$stamp"
}

[ $# -gt 0 ] || usage
for name in "$@"; do
	recipe "$name" >/dev/null
	build "$name"
	printf '%s\n' "$TOOLS/$name"
done

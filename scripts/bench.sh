#!/usr/bin/env bash
# Measures speed on the engines and prints each figure beside its goal. Arguments select what to
# measure: plugin, ralph, microvm, engine, session, network, image, clone, remote, transfer.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
# shellcheck source=scripts/engine/session.sh
. "$SCRIPTS/engine/session.sh"

cd "$SCRIPTS/.."
need_go
session_begin all
RALPH_BENCH_BUILDX=$("$SCRIPTS/tools.sh" buildx)
export RALPH_BENCH_BUILDX
session_ready
go run ./e2e/bench "$@"

#!/usr/bin/env bash
# Runs a slow command that prints nothing: reports what it does, and every ten seconds that it is still running.
#
#   scripts/waiting.sh "compiling docker-ralph" COMMAND [ARGUMENT ...]
set -euo pipefail

what=$1
printf '%s\n' "$what" >&2
(while sleep 10 >/dev/null 2>&1; do printf 'still %s (%d s)\n' "$what" "$SECONDS" >&2; done) </dev/null &
ticker=$!
trap 'kill "$ticker" 2>/dev/null || true' EXIT
"${@:2}"

#!/usr/bin/env bash
# Runs a command that takes long without output: says what it does, and every ten seconds that it still does.
#
#   scripts/waiting.sh "compiling docker-ralph" COMMAND [ARGUMENT ...]
set -euo pipefail

what=$1
printf '%s\n' "$what" >&2
(while sleep 10 >/dev/null 2>&1; do printf 'still %s (%d s)\n' "$what" "$SECONDS" >&2; done) </dev/null &
trap "kill $! 2>/dev/null || true" EXIT
"${@:2}"

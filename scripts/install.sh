#!/usr/bin/env bash
# Installs bin/docker-ralph where the Docker CLI of the invoking user looks for plugins.
# Under sudo that is the user who called sudo, not root.
set -euo pipefail
# shellcheck source=scripts/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

plugin=$SCRIPTS/../bin/docker-ralph
[ -x "$plugin" ] || die "bin/docker-ralph is missing: run \"make install\""

owner=$(id -un)
home=$HOME
if is_root && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
	owner=$SUDO_USER
	home=$(getent passwd "$owner" | cut -d: -f6)
fi
config=${DOCKER_CONFIG:-$home/.docker}

# Folders that are missing belong to the user too, or the user's own "docker login" would fail later.
for folder in "$config" "$config/cli-plugins"; do
	[ -d "$folder" ] || install -d -m 0700 -o "$owner" -g "$(id -gn "$owner")" "$folder"
done
# A new name first: a running plugin keeps its file, and the next call finds a complete one.
target=$config/cli-plugins/docker-ralph
install -m 0755 -o "$owner" -g "$(id -gn "$owner")" "$plugin" "$target.new"
mv "$target.new" "$target"
say "installed $target"

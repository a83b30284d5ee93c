# shellcheck shell=bash
# The owner of plugin and example: the user who called sudo, or else the current one. Sourced.

OWNER=$(id -un)
OWNER_HOME=$HOME
if is_root && [ -n "${SUDO_USER:-}" ]; then
	OWNER=$SUDO_USER
	OWNER_HOME=$(getent passwd "$OWNER" | cut -d: -f6)
fi
# sudo resets the PATH, and Go's installer does not extend it.
PATH=$PATH:/usr/local/go/bin:$OWNER_HOME/go/bin:$OWNER_HOME/.local/bin
RALPH_CACHE=${RALPH_CACHE:-${XDG_CACHE_HOME:-$OWNER_HOME/.cache}/docker-ralph}
export PATH RALPH_CACHE
DOCKER_SETTINGS=${DOCKER_CONFIG:-$OWNER_HOME/.docker}

# The group of the engine's socket where the owner is not in it; see docker_access.
SOCKET_GROUP=

owner_groups() {
	local groups
	groups=$(id -G "$OWNER" | tr ' ' ,)
	echo "$groups${SOCKET_GROUP:+,$SOCKET_GROUP}"
}

# Runs a command as the owner, with access to the engine.
as_owner() {
	if [ "$(id -un)" = "$OWNER" ] && [ -z "$SOCKET_GROUP" ]; then
		"$@"
		return
	fi
	as_root env "HOME=$OWNER_HOME" "USER=$OWNER" "LOGNAME=$OWNER" "PATH=$PATH" \
		"RALPH_CACHE=$RALPH_CACHE" "DOCKER_CONFIG=$DOCKER_SETTINGS" \
		${DOCKER_HOST:+"DOCKER_HOST=$DOCKER_HOST"} \
		setpriv --reuid "$(id -u "$OWNER")" --regid "$(id -g "$OWNER")" --groups "$(owner_groups)" "$@"
}

#: engine-socket held
for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock "$ENGINE_SOCKET"; do [ ! -e "$s" ] || broke "there is $s"; done
tried=1
#: no-sockets-in-files held
same "sockets" "$(find / -xdev -type s 2>/dev/null | head -n 3)" ""
awk '{print $5}' /proc/self/mountinfo | while read -r m; do [ ! -S "$m" ] || echo "$m"; done >/tmp/sockets.$$
same "mounted sockets" "$(cat /tmp/sockets.$$)" ""
#: no-abstract-sockets held
same "sockets" "$(awk '$8 ~ /^@/ && $8 != "@docker-ralph-deadline" {print $8}' /proc/net/unix)" ""
#: no-agents held
same "variables" "$(env | grep -E '^(SSH_AUTH_SOCK|GPG_AGENT_INFO|DBUS_SESSION_BUS_ADDRESS|DISPLAY|WAYLAND_DISPLAY|DOCKER_[A-Z]*)=')" ""
#: secret-variable-of-the-user held
closed sh -c 'perl -e "print scalar reverse shift" "$YRANAC" >/tmp/canary.$$; cat /proc/[0-9]*/environ 2>/dev/null | grep -qaFf /tmp/canary.$$'
#: home-of-the-user held
closed ls "$HOST_HOME/.ssh"
closed cat "$HOST_HOME/.aws/credentials"
#: secret-files-of-the-user held
for f in $SECRET_FILES; do closed cat "$f"; done
#: configuration-of-docker held
closed ls "$HOST_CONFIG"
#: secret-files-by-name broke
for f in ~/.ssh ~/.aws ~/.docker ~/.netrc ~/.git-credentials ~/.gnupg ~/.kube ~/.config/gh; do [ ! -e "$f" ] || broke "there is $f"; done
same "a home folder" "$(stat -c %u ~)" "$AGENT_UID"
#: gitconfig-of-the-user held
same "helpers" "$(git config --get-regexp '^(credential|core\.sshcommand|include|includeif|url\.[^h]).*')" ""
#: password-in-the-git-directory broke
closed sh -c 'perl -e "print scalar reverse shift" "$YRANAC" >/tmp/canary.$$; grep -rqaFf /tmp/canary.$$ .git'
#: neighbours-of-the-work-tree held
same "what is beside it" "$(ls -A "$(dirname "$PWD")" | grep -vFx "$(basename "$PWD")")" ""
#: above-the-work-tree held
for d in .. ../..; do same "a file there" "$(cat $d/secret.txt 2>/dev/null)" ""; done
#: link-out-of-the-work-tree held
ln -sfn "$HOST_HOME" .ralph/out
closed cat .ralph/out/.aws/credentials
rm -f .ralph/out

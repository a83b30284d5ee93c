#: root-is-read-only broke
closed writable /evil
#: etc-is-read-only broke
closed writable /etc/evil
#: programs-are-read-only broke
closed writable /usr/bin/evil
closed writable /bin/sh
#: libraries-are-read-only broke
closed writable /usr/lib/evil.so
closed writable /etc/ld.so.preload
#: var-is-read-only broke
closed writable /var/lib/evil
closed writable /var/tmp/evil
#: opt-is-read-only broke
closed writable /opt/evil
#: path-is-read-only broke
echo "$PATH" | tr : "\n" | grep -v "^/tmp/ralph-" | while read -r d; do (: >>"$d/evil") 2>/dev/null && rm -f "$d/evil" && echo "$d"; done >/tmp/path.$$
same "writable folders" "$(cat /tmp/path.$$)" ""
#: ralph-cannot-be-replaced skipped
[ -d /opt/ralph ] || skip "there is none"
closed sh -c 'for f in /opt/ralph/*; do : >>"$f" && exit 0; done; exit 1'
closed writable /opt/ralph/evil
#: resolver-cannot-be-changed broke
closed writable /etc/resolv.conf
#: hosts-cannot-be-changed broke
closed writable /etc/hosts
#: host-name-file broke
closed writable /etc/hostname
#: files-belong-to-the-user broke
: >.ralph/owned.$$
same "the owner" "$(stat -c %u .ralph/owned.$$)" "$AGENT_UID"
#: no-setuid-files broke
closed "$abuse" mode .ralph
closed sh -c 'cp /bin/true .ralph/setuid.$$ && chmod 4755 .ralph/setuid.$$'
closed sh -c 'cp /bin/true .ralph/setgid.$$ && chmod g+s .ralph/setgid.$$'
#: give-files-away broke
: >.ralph/given.$$
closed chown 0 .ralph/given.$$
closed chgrp 0 .ralph/given.$$
#: file-capabilities broke
: >/tmp/capable.$$
closed "$abuse" capable /tmp/capable.$$
#: files-of-others broke
: >/tmp/mine.$$
closed sh -c 'for f in /etc/gshadow /root /var/cache/ldconfig; do ls "$f/." >/dev/null 2>&1 && exit 0; cat "$f" >/dev/null 2>&1 && exit 0; done; exit 1'
#: immutable-files held
closed chattr +i /tmp
#: tmp-runs-programs held
printf '#!/bin/sh\necho it runs\n' >/tmp/run.$$ && chmod +x /tmp/run.$$
same "a program in /tmp" "$(/tmp/run.$$)" "it runs"
#: tmp-ignores-setuid broke
same "/tmp" "$(awk '$5 == "/tmp" {print ($6 ~ /nosuid/ && $6 ~ /nodev/)}' /proc/self/mountinfo)" 1
#: run-runs-no-programs broke
same "/run" "$(awk '$5 == "/run" {print ($6 ~ /noexec/ && $6 ~ /nosuid/)}' /proc/self/mountinfo)" 1
#: mounts-pass-nothing-on held
same "shared mounts" "$(grep -c 'shared:' /proc/self/mountinfo)" 0
#: disks-are-read-only broke
# Of the machine's file systems only the work tree, its git directory, the home folder and the repository's caches
# can be written to. The volume with a copy of the user's settings is root's.
same "others" "$(awk -v tree="$PWD" '$6 ~ /^rw/ && $0 ~ / - (ext4|xfs|btrfs|overlay) / && index($5, tree) != 1 && $5 != ENVIRON["HOME"] && $5 !~ /ralph-git/ && $5 != "/ralph-cache" && $5 != "/run/docker-ralph-config" {print $5}' /proc/self/mountinfo)" ""
closed writable /run/docker-ralph-config/written

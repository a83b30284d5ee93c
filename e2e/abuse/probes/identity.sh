#: user-is-not-root broke
same "the user" "$(id -u)" "$AGENT_UID"
#: group-is-the-users broke
same "the groups" "$(id -G)" "$AGENT_GID"
#: capabilities-effective broke
same CapEff "$(awk '/CapEff/ {print $2}' /proc/self/status)" 0000000000000000
#: capabilities-permitted broke
same CapPrm "$(awk '/CapPrm/ {print $2}' /proc/self/status)" 0000000000000000
#: capabilities-inheritable held
same CapInh "$(awk '/CapInh/ {print $2}' /proc/self/status)" 0000000000000000
#: capabilities-ambient held
same CapAmb "$(awk '/CapAmb/ {print $2}' /proc/self/status)" 0000000000000000
#: capabilities-bounding broke
same CapBnd "$(awk '/CapBnd/ {print $2}' /proc/self/status)" 0000000000000000
#: no-new-privileges broke
same NoNewPrivs "$(awk '/NoNewPrivs/ {print $2}' /proc/self/status)" 1
#: seccomp-filter held
same Seccomp "$(awk '/^Seccomp:/ {print $2}' /proc/self/status)" 2
#: become-root broke
closed "$abuse" call setuid-root
#: become-the-root-group broke
closed "$abuse" call setgid-root
#: become-another-user broke
closed "$abuse" call setuid-nobody
#: take-other-groups broke
closed "$abuse" call setgroups
#: setuid-programs broke
closed su -c true
[ -u /usr/bin/su ] || skip "su is not setuid here"
#: shadow broke
closed cat /etc/shadow
#: signal-the-first-process broke
closed kill -0 1
#: environment-of-the-first-process broke
closed cat /proc/1/environ
#: memory-of-the-first-process broke
closed dd if=/proc/1/mem of=/dev/null count=0
#: root-folder-of-the-first-process broke
closed ls /proc/1/root/
#: open-files-of-the-first-process broke
closed ls /proc/1/fd
#: add-a-user broke
closed sh -c 'echo evil::0:0::/:/bin/sh >>/etc/passwd'
#: sudoers broke
closed sh -c 'mkdir -p /etc/sudoers.d && echo "ALL ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/evil'

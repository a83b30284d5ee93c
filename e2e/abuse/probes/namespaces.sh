#: new-user-namespace held
closed "$abuse" call new-user
#: new-mount-namespace held
closed "$abuse" call new-mount
#: new-network-namespace held
closed "$abuse" call new-net
#: new-process-namespace held
closed "$abuse" call new-pid
#: new-ipc-namespace held
closed "$abuse" call new-ipc
#: new-uts-namespace held
closed "$abuse" call new-uts
#: new-cgroup-namespace held
closed "$abuse" call new-cgroup
#: clone3 held
closed "$abuse" call clone3
#: unshare-program held
closed unshare -Urmpf --mount-proc true
#: enter-a-namespace held
closed "$abuse" call setns
#: nsenter-the-first-process held
closed nsenter -t 1 -m -n -p true
#: own-processes-only held
case $(tr '\0' ' ' </proc/1/cmdline 2>/dev/null) in *systemd* | */sbin/init*) broke "the machine's first process is seen" ;; esac
[ "$(ls -d /proc/[0-9]* | wc -l)" -lt 150 ] || broke "the machine's processes are seen"
tried=1
#: own-network-only held
same "the devices" "$(ls /sys/class/net | grep -v -e '^lo$' -e '^eth0$')" ""
#: own-control-group-only differs
same "the control groups" "$(cut -d: -f3- /proc/self/cgroup | sort -u | tr '\n' ' ')" "/ "
#: own-host-name held
[ "$(uname -n)" != "$MACHINE_NAME" ] || broke "it is the machine's"
tried=1
#: change-the-host-name held
closed "$abuse" call sethostname
#: mount-a-tmpfs held
closed mount -t tmpfs tmpfs /tmp
#: mount-proc held
closed mount -t proc proc /tmp
#: bind-mount held
closed mount --bind / /tmp
#: mount-a-disk held
closed mount /dev/vda /tmp
#: remount-writable held
closed mount -o remount,rw /
#: remount-proc-writable held
closed mount -o remount,rw /proc/sys
#: unmask-proc held
closed "$abuse" call umount
#: fsopen held
closed "$abuse" call fsopen
#: open-tree held
closed "$abuse" call open-tree
#: move-mount held
closed "$abuse" call move-mount
#: mount-setattr held
closed "$abuse" call mount-setattr
#: pivot-root held
closed "$abuse" call pivot-root
#: chroot broke
closed "$abuse" call chroot
#: open-by-handle held
closed "$abuse" call open-by-handle-at

#: make-a-disk broke
closed mknod /tmp/disk.$$ b 254 0
#: make-a-disk-in-the-work-tree broke
closed mknod .ralph/disk.$$ b 254 0
#: make-a-memory-device broke
closed mknod /tmp/mem.$$ c 1 1
#: no-devices-of-the-machine held
for d in mem kmem port kmsg fuse kvm loop-control loop0 vda sda nvme0n1 mapper/control net/tun vhost-net vsock uinput autofs snd dri rtc0 hpet btrfs-control; do
	[ ! -e "/dev/$d" ] || broke "there is /dev/$d"
done
tried=1
#: only-known-devices held
same "the devices" "$(ls /dev | grep -vxE 'evil|console|core|fd|full|mqueue|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero')" ""
#: add-a-device broke
closed writable /dev/evil
#: kernel-memory held
same "bytes of kcore" "$(head -c 64 /proc/kcore 2>/dev/null | wc -c)" 0
#: kernel-addresses differs
closed grep -qv '^0000000000000000' /proc/kallsyms
#: kernel-log held
closed "$abuse" call syslog
#: sysrq held
closed writable /proc/sysrq-trigger
#: core-pattern held
closed writable /proc/sys/kernel/core_pattern
#: modprobe-path held
closed writable /proc/sys/kernel/modprobe
#: binfmt held
closed writable /proc/sys/fs/binfmt_misc/register
#: kernel-settings held
for f in kernel/panic kernel/randomize_va_space vm/overcommit_memory vm/drop_caches fs/file-max; do closed writable /proc/sys/$f; done
#: network-settings held
for f in net/ipv4/ip_forward net/ipv4/conf/all/accept_redirects net/ipv4/ping_group_range; do closed writable /proc/sys/$f; done
#: ipv6-on-again held
closed sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
#: uevent-helper held
closed writable /sys/kernel/uevent_helper
#: release-agent held
same "a release agent" "$(find /sys/fs/cgroup -maxdepth 3 -name release_agent -writable 2>/dev/null | while read -r f; do (: >>"$f") 2>/dev/null && echo "$f"; done)" ""
#: device-control-group differs
for f in /sys/fs/cgroup/devices/devices.allow /sys/fs/cgroup/cgroup.procs; do [ ! -e $f ] || closed writable $f; done
closed writable /sys/fs/cgroup/evil
#: firmware held
same "firmware" "$(ls /sys/firmware 2>/dev/null)" ""
#: debugfs held
same "what is in it" "$(ls /sys/kernel/debug /sys/kernel/tracing 2>/dev/null | grep -v : | tr -d '\n')" ""
#: keys-of-the-machine held
same "keys" "$(cat /proc/keys 2>/dev/null)" ""
#: timers-of-the-machine held
same "timers" "$(cat /proc/timer_list 2>/dev/null)" ""
#: sys-is-read-only held
closed writable /sys/class/net/eth0/mtu

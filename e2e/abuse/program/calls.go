//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a system call with arguments that do no harm. A call is closed if
// it is not permitted or not there at all: any other error comes from behind the
// filter.
func call(name string) error {
	if flags := cloneFlags(name); flags != 0 {
		return clone(flags)
	}
	var k keep
	c, ok := calls(&k)[name]
	if !ok {
		return fmt.Errorf("there is no call %q here", name)
	}
	_, _, errno := unix.Syscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
	runtime.KeepAlive(k)
	return judge(errno)
}

func judge(errno syscall.Errno) error {
	switch {
	case errno == 0:
		return nil
	case slices.Contains([]syscall.Errno{unix.EPERM, unix.ENOSYS, unix.EACCES}, errno):
		return closed(errno)
	}
	_, err := fmt.Fprintln(os.Stdout, "it comes through:", errno)
	return err
}

type callOf struct {
	number uintptr
	args   [6]uintptr
}

// nowhere is an address at which nothing is.
const nowhere = 8

// keep has what the kernel shall find at the addresses that it is given.
type keep []any

func pointer[T any](k *keep, p *T) uintptr {
	*k = append(*k, p)
	return uintptr(unsafe.Pointer(p))
}

func calls(k *keep) map[string]callOf {
	one := new(int32)
	*one = 1
	text := func(s string) uintptr {
		b, _ := unix.BytePtrFromString(s)
		return pointer(k, b)
	}
	return map[string]callOf{
		"acct":              {unix.SYS_ACCT, [6]uintptr{nowhere}},
		"add-key":           {unix.SYS_ADD_KEY, [6]uintptr{nowhere, nowhere, 0, 0, ^uintptr(2)}},
		"adjtimex":          {unix.SYS_ADJTIMEX, [6]uintptr{pointer(k, &unix.Timex{Modes: 0x4000, Tick: 10000})}},
		"bpf":               {unix.SYS_BPF, [6]uintptr{0, nowhere, 48}},
		"chroot":            {unix.SYS_CHROOT, [6]uintptr{text("/tmp")}},
		"clone3":            {unix.SYS_CLONE3, [6]uintptr{nowhere, 0}},
		"delete-module":     {unix.SYS_DELETE_MODULE, [6]uintptr{nowhere}},
		"fanotify":          {unix.SYS_FANOTIFY_INIT, [6]uintptr{unix.FAN_CLASS_CONTENT}},
		"finit-module":      {unix.SYS_FINIT_MODULE, [6]uintptr{^uintptr(0)}},
		"fsopen":            {unix.SYS_FSOPEN, [6]uintptr{text("tmpfs")}},
		"init-module":       {unix.SYS_INIT_MODULE, [6]uintptr{nowhere, 0, nowhere}},
		"io-uring":          {unix.SYS_IO_URING_SETUP, [6]uintptr{1, nowhere}},
		"kexec-load":        {unix.SYS_KEXEC_LOAD, [6]uintptr{0, 99, nowhere}},
		"keyctl":            {unix.SYS_KEYCTL, [6]uintptr{0, ^uintptr(3), 0}},
		"mount-setattr":     {unix.SYS_MOUNT_SETATTR, [6]uintptr{^uintptr(99), text("/"), 0, nowhere, 32}},
		"move-mount":        {unix.SYS_MOVE_MOUNT, [6]uintptr{^uintptr(99), text("/tmp"), ^uintptr(99), text("/run"), 0}},
		"open-by-handle-at": {unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{^uintptr(99), nowhere, 0}},
		"open-tree":         {unix.SYS_OPEN_TREE, [6]uintptr{^uintptr(99), text("/"), 1}},
		"perf-event-open":   {unix.SYS_PERF_EVENT_OPEN, [6]uintptr{nowhere, 0, ^uintptr(0), ^uintptr(0), 0}},
		"personality":       {unix.SYS_PERSONALITY, [6]uintptr{0x0040000}}, // ADDR_NO_RANDOMIZE
		"pivot-root":        {unix.SYS_PIVOT_ROOT, [6]uintptr{text("/tmp"), text("/tmp")}},
		"ptrace-init":       {unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_SEIZE, 1}},
		"quotactl":          {unix.SYS_QUOTACTL, [6]uintptr{0x800002 << 8, nowhere}},
		"reboot":            {unix.SYS_REBOOT, [6]uintptr{1, 2, 3}}, // such numbers reboot nothing
		"request-key":       {unix.SYS_REQUEST_KEY, [6]uintptr{nowhere, nowhere}},
		"sched-fifo":        {unix.SYS_SCHED_SETSCHEDULER, [6]uintptr{0, unix.SCHED_FIFO, pointer(k, one)}},
		"sethostname":       {unix.SYS_SETHOSTNAME, [6]uintptr{text("elsewhere"), 9}},
		"setns":             {unix.SYS_SETNS, [6]uintptr{namespace(), 0}},
		"setuid-nobody":     {unix.SYS_SETUID, [6]uintptr{65534}},
		"setuid-root":       {unix.SYS_SETRESUID, [6]uintptr{0, 0, 0}},
		"setgid-root":       {unix.SYS_SETRESGID, [6]uintptr{0, 0, 0}},
		"setgroups":         {unix.SYS_SETGROUPS, [6]uintptr{1, pointer(k, one)}},
		"settimeofday":      {unix.SYS_SETTIMEOFDAY, [6]uintptr{0, 0}},
		"swapon":            {unix.SYS_SWAPON, [6]uintptr{nowhere}},
		"syslog":            {unix.SYS_SYSLOG, [6]uintptr{3, pointer(k, one), 4}},
		"umount":            {unix.SYS_UMOUNT2, [6]uintptr{text("/proc/kcore"), unix.MNT_DETACH}},
		"userfaultfd":       {unix.SYS_USERFAULTFD, [6]uintptr{0}},
		"vhangup":           {unix.SYS_VHANGUP, [6]uintptr{}},
	}
}

func cloneFlags(name string) uintptr {
	return map[string]uintptr{
		"new-user": unix.CLONE_NEWUSER, "new-mount": unix.CLONE_NEWNS, "new-net": unix.CLONE_NEWNET, "new-pid": unix.CLONE_NEWPID,
		"new-ipc": unix.CLONE_NEWIPC, "new-uts": unix.CLONE_NEWUTS, "new-cgroup": unix.CLONE_NEWCGROUP,
	}[name]
}

// clone starts a process in a namespace of its own.
func clone(flags uintptr) error {
	cmd := exec.Command("/bin/true") //nolint:noctx // it ends at once
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	var errno syscall.Errno
	if err := cmd.Run(); errors.As(err, &errno) {
		return judge(errno)
	}
	return nil
}

// namespace is the agent's own, of which entering needs the same right.
func namespace() uintptr {
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ^uintptr(0)
	}
	return uintptr(fd)
}

// socket makes one, by numbers. A family that the kernel has not is closed.
func socket(family, kind, protocol string) error {
	var numbers [3]int
	for i, s := range []string{family, kind, protocol} {
		n, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	fd, err := unix.Socket(numbers[0], numbers[1]|unix.SOCK_CLOEXEC, numbers[2])
	if err != nil {
		return closed(err)
	}
	return unix.Close(fd)
}

// capable gives a file all rights.
func capable(file string) error {
	rights := []byte{1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	if err := unix.Setxattr(file, "security.capability", rights, 0); err != nil {
		return closed(err)
	}
	return nil
}

// allocate uses memory, in MiB.
func allocate(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	block, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return closed(err)
	}
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	return unix.Munmap(block)
}

// flush asks the firewall to forget its rules, and route for a way out, each
// by a message to the kernel that needs the right to administer networks.
func flush() error {
	const deleteTable, begin, end = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE, unix.NFNL_MSG_BATCH_BEGIN, unix.NFNL_MSG_BATCH_END
	return netlink(unix.NETLINK_NETFILTER,
		message{begin, unix.NLM_F_REQUEST, []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}},
		message{deleteTable, unix.NLM_F_REQUEST | unix.NLM_F_ACK, []byte{0, 0, 0, 0}},
		message{end, unix.NLM_F_REQUEST, []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}})
}

func route() error {
	interfaceUp := make([]byte, unix.SizeofIfInfomsg)
	interfaceUp[4] = 1 // lo
	return netlink(unix.NETLINK_ROUTE, message{unix.RTM_SETLINK, unix.NLM_F_REQUEST | unix.NLM_F_ACK, interfaceUp})
}

type message struct {
	kind, flags uint16
	body        []byte
}

// netlink sends messages and returns what the kernel says to them.
func netlink(protocol int, messages ...message) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var all []byte
	for i, m := range messages {
		h := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(m.body)), Type: m.kind, Flags: m.flags, Seq: uint32(i + 1)}
		all = append(all, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.SizeofNlMsghdr)...)
		all = append(all, m.body...)
	}
	if err := unix.Sendto(fd, all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return closed(err)
	}
	wait := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buffer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || (*unix.NlMsghdr)(unsafe.Pointer(&buffer[0])).Type != unix.NLMSG_ERROR {
		return errors.New("the kernel says something else")
	}
	return judge(syscall.Errno(-*(*int32)(unsafe.Pointer(&buffer[unix.SizeofNlMsghdr]))))
}

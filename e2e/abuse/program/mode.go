//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setMode tries every system call that can give a file in a folder a setuid or a
// setgid bit. There is a way if one of the files has it.
func setMode(folder string) error {
	var found []error
	for _, bit := range []uint32{unix.S_ISUID, unix.S_ISGID} {
		mode := bit | 0o755
		for name, set := range modeCalls(mode) {
			file := filepath.Join(folder, fmt.Sprintf("mode-%s-%o", name, mode))
			if strings.Contains(name, "chmod") {
				if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
					return err
				}
			}
			err := set(file)
			var stat unix.Stat_t
			if unix.Lstat(file, &stat) == nil && stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
				found = append(found, fmt.Errorf("%s: %o (%v)", name, stat.Mode, err))
			}
			_ = os.Remove(file)
		}
	}
	if len(found) == 0 {
		return closed(errors.New("no file has the bit"))
	}
	_, err := fmt.Fprintln(os.Stdout, errors.Join(found...))
	return err
}

// modeCalls are the calls, straight to the kernel.
func modeCalls(mode uint32) map[string]func(file string) error {
	const here = unix.AT_FDCWD
	created := func(fd int, err error) error {
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	direct := func(number, flags, mode uintptr) func(file string) error {
		return func(file string) error {
			path, err := unix.BytePtrFromString(file)
			if err != nil {
				return err
			}
			if _, _, errno := unix.Syscall(number, uintptr(unsafe.Pointer(path)), flags, mode); errno != 0 {
				return errno
			}
			return nil
		}
	}
	all := map[string]func(file string) error{
		"chmod": func(file string) error { return unix.Chmod(file, mode) },
		"fchmod": func(file string) error {
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			return errors.Join(unix.Fchmod(int(f.Fd()), mode), f.Close())
		},
		"fchmodat": func(file string) error { return unix.Fchmodat(here, file, mode, 0) },
		"fchmodat2": func(file string) error {
			path, err := unix.BytePtrFromString(file)
			if err != nil {
				return err
			}
			at := here
			if _, _, errno := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(at), uintptr(unsafe.Pointer(path)), uintptr(mode), 0, 0, 0); errno != 0 {
				return errno
			}
			return nil
		},
		"openat": func(file string) error {
			return created(unix.Openat(here, file, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, mode))
		},
		"openat2": func(file string) error {
			return created(unix.Openat2(here, file, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, Mode: uint64(mode)}))
		},
		"tmpfile": func(file string) error {
			fd, err := unix.Open(filepath.Dir(file), unix.O_TMPFILE|unix.O_WRONLY, mode)
			if err != nil {
				return err
			}
			return errors.Join(unix.Linkat(here, fmt.Sprintf("/proc/self/fd/%d", fd), here, file, unix.AT_SYMLINK_FOLLOW), unix.Close(fd))
		},
		"mknodat": func(file string) error { return unix.Mknodat(here, file, unix.S_IFREG|mode, 0) },
	}
	if runtime.GOARCH == "amd64" { // newer architectures do not have these
		const openCall, creatCall, mknodCall = 2, 85, 133
		all["open"] = direct(openCall, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, uintptr(mode))
		all["creat"] = direct(creatCall, uintptr(mode), 0)
		all["mknod"] = direct(mknodCall, uintptr(unix.S_IFREG|mode), 0)
	}
	return all
}

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runHold keeps a network namespace, with all rules in it, until it is ended.
// Sandboxes that come and go use that namespace. It gives up the right to change
// rules, which only commands run beside it have.
func runHold(ctx context.Context, args []string, _ streams) error {
	if len(args) > 0 {
		return errors.New("usage: ralph-egress hold")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("giving up all capabilities: %w", errno)
	}
	<-ctx.Done()
	return nil
}

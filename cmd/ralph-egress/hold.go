package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runHold keeps a network namespace, with all rules in it, for as long as nobody
// ends it. Sandboxes that come and go use that namespace. What runs beside it can
// change the rules; itself it gives up the right to.
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

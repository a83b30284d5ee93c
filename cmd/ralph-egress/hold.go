package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runHold is the main process of a pause container: it keeps the network namespace alive.
// It drops the capability to change rules, which only execs in the container have.
func runHold(ctx context.Context, args []string, _ streams) error {
	if len(args) > 0 {
		return errors.New("usage: ralph-egress hold")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("dropping all capabilities: %w", errno)
	}
	<-ctx.Done()
	return nil
}

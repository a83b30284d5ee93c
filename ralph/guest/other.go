//go:build !linux

package guest

import (
	"context"
	"errors"
)

var errLinux = errors.New("this command requires Linux")

// SetUmask does nothing here.
func SetUmask() {}

// AwaitInit does nothing here.
func AwaitInit(context.Context) error { return nil }

func runExec([]string) error { return errLinux }

func runInit(context.Context, streams, []string) error { return errLinux }

func runSignal([]string) error { return errLinux }

func runFinish([]string) error { return errLinux }

func runDispatch(context.Context, streams, []string) error { return errLinux }

func runDispatched(streams, []string) error { return errLinux }

func runDispatches(streams, []string) error { return errLinux }

func runHold(context.Context, []string) error { return errLinux }

func runBootstrap(context.Context, streams, []string) error { return errLinux }

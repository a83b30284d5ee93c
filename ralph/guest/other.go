//go:build !linux

package guest

import "errors"

var errLinux = errors.New("this command works in a Linux sandbox only")

func runInit([]string) error { return errLinux }

func runSignal([]string) error { return errLinux }

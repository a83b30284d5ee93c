//go:build !linux

package plugin

import (
	"io"
	"os"
)

// untilLost reads a terminal. Only Linux lets us wait for it without taking what
// is typed.
func untilLost(from *os.File, _ <-chan struct{}) io.Reader { return from }

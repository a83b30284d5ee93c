package host

import "os"

// Background is how a loop continues without a terminal.
type Background struct {
	// Lost is closed when the terminal is lost.
	Lost <-chan struct{}
	// ReleaseTTY closes the open files of the terminal. The trace of a crash is written to
	// the file.
	ReleaseTTY func(crash *os.File) error
	// Ready is called in a process that was started for --detach, when its loop runs and the
	// terminal is released; nil in others.
	Ready func(sandbox string)
}

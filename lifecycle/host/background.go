package host

import "os"

// Background is how a loop goes on without a terminal.
type Background struct {
	// Lost is closed when the terminal is lost.
	Lost <-chan struct{}
	// LetGo lets go of the terminal and of all open files that lead to it. What
	// the program says when it crashes goes to the file.
	LetGo func(crash *os.File) error
	// Begun is called in a process that has been started to run a loop in the
	// background, once the loop has begun and the terminal was let go; nil in
	// others.
	Begun func(sandbox string)
}

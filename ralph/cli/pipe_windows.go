package cli

// catchBrokenPipe has nothing to do: writing to a closed pipe is an error.
func catchBrokenPipe() (stop func()) { return func() {} }

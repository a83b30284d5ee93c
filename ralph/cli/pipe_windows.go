package cli

// catchBrokenPipe does nothing: writing to a closed pipe returns an error.
func catchBrokenPipe() (stop func()) { return func() {} }

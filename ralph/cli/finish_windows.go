package cli

import "os"

// finishRequests receives nothing: Windows has no such signal.
func finishRequests() (requests <-chan os.Signal, stop func()) { return nil, func() {} }

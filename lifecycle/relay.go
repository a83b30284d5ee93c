package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// RelayStderr is how much of its standard error a [Relayer] keeps, in bytes.
const RelayStderr = 4 << 10

// RelayEnd is the error with which the output of a [Relayer] ends: [io.EOF] unless "ralph _session" has failed with err,
// or has written to its standard error.
func RelayEnd(err error, stderr string) error {
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n") // the rest is hints or a stack trace
	first = strings.TrimPrefix(first, "Error: ")
	switch {
	case first != "" && err != nil:
		return fmt.Errorf("%q: %w", first, err)
	case first != "":
		return errors.New(first)
	case err != nil:
		return err
	}
	return io.EOF
}

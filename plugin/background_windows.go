package plugin

import (
	"errors"
	"os"

	"github.com/moby/term"
)

// canDetach says whether a process can leave its terminal here.
const canDetach = false

var errNotHere = errors.New("background loops are not supported on this system")

func openBackground() (*os.File, error) { return nil, nil }

func startBackground() (*os.Process, *os.File, error) { return nil, nil, errNotHere }

func saveTerminal() *term.State { return nil }

func releaseTTY(*term.State) func(*os.File) error {
	return func(*os.File) error { return errNotHere }
}

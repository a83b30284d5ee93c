package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/scopes"
)

// End is how a background loop has ended.
type End struct {
	// ID is the ID of its dispatch.
	ID      string    `json:"id"`
	Command []string  `json:"command"`
	Since   time.Time `json:"since"`
	At      time.Time `json:"at"`
	// ExitCode is the loop's; 1 with an Error.
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`
	// Summary is the loop's summary in one line, safe for a terminal; empty for none.
	Summary string `json:"summary,omitempty"`
	// Log is the file with its output; empty for none.
	Log string `json:"log,omitempty"`
}

var ends = scopes.Section[End]("ended")

// Ended returns how the last background loop of a scope has ended. sandbox is the scope's own,
// also for loops in ephemeral ones. The error is [fs.ErrNotExist] if a loop was started since.
func Ended(stateDir, sandbox string) (End, error) {
	e, ended, err := ends.Read(stateDir, sandbox)
	if err == nil && !ended {
		err = fs.ErrNotExist
	}
	if err != nil {
		return End{}, fmt.Errorf("reading how the loop in %s has ended: %w", sandbox, err)
	}
	return e, nil
}

// String describes it in one line.
func (e End) String() string {
	text := fmt.Sprintf("%q ended in the background at %s (%s ago) with exit code %d",
		strings.Join(e.Command, " "), e.At.Local().Format("15:04"), strings.ToLower(units.HumanDuration(time.Since(e.At))), e.ExitCode)
	for _, more := range []string{e.Error, e.Summary} {
		if more != "" {
			text += ". " + more
		}
	}
	return text
}

// SaveEnd saves how a background loop has ended.
func (h Host) SaveEnd(sandbox string, e End) error {
	if err := ends.Write(h.StateDir, sandbox, e); err != nil {
		return fmt.Errorf("saving how the loop has ended: %w", err)
	}
	return nil
}

// ReportEnd reports, once, how the last background loop of a sandbox has ended.
func (h Host) ReportEnd(sandbox string) {
	e, err := Ended(h.StateDir, sandbox)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		h.Report("Note: " + e.String())
		err = ends.Remove(h.StateDir, sandbox)
	}
	if err != nil {
		h.Warn(err)
	}
}

package runlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// maxTranscripts bounds the number of transcripts of each command in a directory.
	maxTranscripts = 50
	// stamp is the prefix of the names of transcripts, which sort by time.
	stamp = "20060102-150405.000"
)

// CreateTranscript creates the transcript of a command in the directory of logs, and
// prunes old ones.
func CreateTranscript(dir, command string, now time.Time) (*Transcript, error) {
	t, err := createTranscript(dir, command, now)
	if err != nil {
		return nil, fmt.Errorf("creating the transcript of %s: %w", command, err)
	}
	return t, nil
}

func createTranscript(dir, command string, now time.Time) (*Transcript, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	for tries := 1000; ; tries-- {
		file, err := logs.OpenFile(now.UTC().Format(stamp)+"-"+command+".log", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) && tries > 0 {
			now = now.Add(time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		pruneTranscripts(logs, command)
		return &Transcript{file: file, left: maxOutput}, nil
	}
}

// pruneTranscripts removes the oldest transcripts of a command. Errors are ignored.
func pruneTranscripts(logs *os.Root, command string) {
	all := transcripts(logs, command)
	for _, name := range all[:max(0, len(all)-maxTranscripts)] {
		_ = logs.Remove(name)
	}
}

// transcripts lists the transcripts of a command, oldest first.
func transcripts(logs *os.Root, command string) []string {
	var all []string
	for _, name := range names(logs) {
		if c, ok := transcriptOf(name); ok && c == command {
			all = append(all, name)
		}
	}
	slices.Sort(all) // names begin with the time
	return all
}

// transcriptOf returns the command of the transcript with this name.
func transcriptOf(name string) (command string, ok bool) {
	name, ok = strings.CutSuffix(name, ".log")
	if !ok || len(name) <= len(stamp)+1 {
		return "", false
	}
	if _, err := time.Parse(stamp, name[:len(stamp)]); err != nil {
		return "", false
	}
	return strings.CutPrefix(name[len(stamp):], "-")
}

// LatestTranscript opens the latest transcript of a command in the directory of logs. The
// error is [fs.ErrNotExist] if there is none.
func LatestTranscript(dir, command string) (io.ReadCloser, error) {
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	all := transcripts(logs, command)
	if len(all) == 0 {
		return nil, fs.ErrNotExist
	}
	return OpenFile(logs, all[len(all)-1])
}

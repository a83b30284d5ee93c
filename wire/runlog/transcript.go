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
	// maxTranscripts bounds the number of transcripts of each command in a worktree.
	maxTranscripts = 50
	// stamp is the prefix of the names of transcripts, which sort by time.
	stamp = "20060102-150405.000"
)

// Owner is the owner of files that root creates.
type Owner struct{ UID, GID int }

// CreateTranscript creates the transcript of a command in the worktree top, and
// prunes old ones. It follows no links, which agents can create there. A nil owner
// is the user of this process.
func CreateTranscript(top, command string, now time.Time, owner *Owner) (*Transcript, error) {
	logs, err := MakeLogs(top, owner)
	if err != nil {
		return nil, fmt.Errorf("creating the transcript of %s: %w", command, err)
	}
	defer func() { _ = logs.Close() }()
	for tries := 1000; ; tries-- {
		name := now.UTC().Format(stamp) + "-" + command + ".log"
		file, err := logs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) && tries > 0 {
			now = now.Add(time.Millisecond)
			continue
		}
		if err == nil {
			if err = owner.Chown(logs, name); err != nil {
				_ = file.Close() // empty
			}
		}
		if err != nil {
			return nil, fmt.Errorf("creating the transcript of %s: %w", command, err)
		}
		pruneTranscripts(logs, command)
		return &Transcript{file: file, left: maxOutput}, nil
	}
}

// MakeLogs creates and opens the directory of logs without following links.
func MakeLogs(top string, owner *Owner) (*os.Root, error) {
	at, err := os.OpenRoot(top)
	for part := range strings.SplitSeq(dir, "/") {
		if err != nil {
			return nil, err
		}
		if err = at.Mkdir(part, 0o755); err == nil {
			err = owner.Chown(at, part)
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		var next *os.Root
		if err == nil {
			next, err = OpenDir(at, part)
		}
		if err == nil && part == ".ralph" {
			err = hideFromGit(next, ".gitignore", owner)
		}
		_ = at.Close()
		at = next
	}
	return at, err
}

// Chown changes the owner of a file, unless the owner is nil.
func (o *Owner) Chown(at *os.Root, name string) error {
	if o == nil {
		return nil
	}
	return at.Lchown(name, o.UID, o.GID)
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
	for _, name := range names(logs, maxNames) {
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

// LatestTranscript opens the latest transcript of a command in the worktree top. The
// error is [fs.ErrNotExist] if there is none.
func LatestTranscript(top, command string) (io.ReadCloser, error) {
	logs, err := OpenLogs(top)
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

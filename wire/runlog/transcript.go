package runlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// keptTranscripts is how many transcripts of each command stay in a work tree.
	keptTranscripts = 50
	// stamp is how the names of transcripts begin, so that they sort by time.
	stamp = "20060102-150405.000"
)

// Owner is whom files belong to that root makes for somebody else.
type Owner struct{ UID, GID int }

// Transcript is what a command has printed that is no loop: a file beside the
// folders of loops. It is kept from outside, where agents can write: so no link
// is followed. It is safe for concurrent use.
type Transcript struct {
	mu     sync.Mutex
	copied copied
}

// Keep makes the transcript of a command in the work tree top, which begins now,
// and removes old ones of that command that are too many. A nil owner is the user
// of this process.
func Keep(top, command string, now time.Time, owner *Owner) (*Transcript, error) {
	logs, err := makeLogs(top, owner)
	if err != nil {
		return nil, fmt.Errorf("keeping what %s prints: %w", command, err)
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
			err = owner.take(logs, name)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("keeping what %s prints: %w", command, err), closed(file))
		}
		pruneTranscripts(logs, command, keptTranscripts)
		return &Transcript{copied: copied{file: file, left: maxOutput}}, nil
	}
}

// makeLogs opens the folder of logs and makes it if need be.
func makeLogs(top string, owner *Owner) (*os.Root, error) {
	at, err := os.OpenRoot(top)
	for part := range strings.SplitSeq(dir, "/") {
		if err != nil {
			return nil, err
		}
		err = at.Mkdir(part, 0o755)
		made := err == nil
		if made {
			err = owner.take(at, part)
		}
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		var next *os.Root
		if err == nil {
			next, err = openDir(at, part)
		}
		if err == nil && made && part == ".ralph" {
			err = hideFromGit(next, ".gitignore", owner)
		}
		_ = at.Close() // only looked into
		at = next
	}
	return at, err
}

// take gives a file to its owner.
func (o *Owner) take(at *os.Root, name string) error {
	if o == nil {
		return nil
	}
	return at.Lchown(name, o.UID, o.GID)
}

func closed(file *os.File) error {
	if file == nil {
		return nil
	}
	return file.Close()
}

// pruneTranscripts removes the oldest ones of a command. What cannot be removed
// stays.
func pruneTranscripts(logs *os.Root, command string, limit int) {
	var all []string
	for _, name := range names(logs, looked) {
		if c, ok := transcriptOf(name); ok && c == command {
			all = append(all, name)
		}
	}
	slices.Sort(all) // they begin with the time
	for _, name := range all[:max(0, len(all)-limit)] {
		_ = logs.Remove(name)
	}
}

// transcriptOf returns the command whose transcript has this name.
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

// LatestTranscript opens the transcript of the command in the work tree top that
// began last. The error is [fs.ErrNotExist] if there is none.
func LatestTranscript(top, command string) (io.ReadCloser, error) {
	logs, err := openLogs(top)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	latest := ""
	for _, name := range names(logs, looked) {
		if c, ok := transcriptOf(name); ok && c == command && name > latest {
			latest = name
		}
	}
	if latest == "" {
		return nil, fs.ErrNotExist
	}
	return openFile(logs, latest)
}

// Write implements [io.Writer]. It never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.copied.write(p)
	return len(p), nil
}

// Tee returns a writer that writes to w, and keeps what was written. A nil
// transcript keeps nothing.
func (t *Transcript) Tee(w io.Writer) io.Writer {
	if t == nil {
		return w
	}
	return tee{w, t}
}

// Close ends the transcript.
func (t *Transcript) Close() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.copied.close()
	}
}

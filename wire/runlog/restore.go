package runlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// keptOpen is how many files of a loop are kept open. Of a longer loop, the files
// of the oldest runs can be lost.
const keptOpen = 256

// held is a file of the log that is kept open: removing it takes nothing away.
type held struct {
	name string
	file *os.File
}

// holdFile keeps a file open that has just been made, or is there.
func (l *Log) holdFile(name string) error {
	file, err := l.root.Open(name)
	if err != nil {
		return err
	}
	for i, h := range l.held {
		if h.name == name {
			_ = h.file.Close() // only read
			l.held[i].file = file
			return nil
		}
	}
	l.held = append(l.held, held{name, file})
	if len(l.held) > keptOpen {
		_ = l.held[0].file.Close()
		l.held = l.held[1:]
	}
	return nil
}

// Restore brings the loop's folder back if an agent has removed it, or part of it.
func (l *Log) Restore() error {
	if l.output != nil {
		l.output.mu.Lock()
		defer l.output.mu.Unlock()
	}
	err := l.restoreFolders()
	if err == nil && !l.regular(l.name(loopFile)) {
		err = errors.Join(l.root.RemoveAll(l.name(loopFile)), l.save())
	}
	for _, h := range l.held {
		if err == nil {
			err = l.restoreFile(h)
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the loop's log: %w", err)
	}
	return nil
}

func (l *Log) regular(name string) bool {
	info, err := l.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// restoreFolders makes the folders, in the place of whatever else is there.
func (l *Log) restoreFolders() error {
	at := ""
	for part := range strings.SplitSeq(l.name(""), "/") {
		at = path.Join(at, part)
		info, err := l.root.Lstat(at)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			err = l.root.RemoveAll(at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := l.root.Mkdir(at, 0o755); err != nil {
			return err
		}
	}
	return hideFromGit(l.root, ignoreFile, nil)
}

// restoreFile writes a file again unless it is the one that is held.
func (l *Log) restoreFile(h held) error {
	info, err := h.file.Stat()
	if err != nil {
		return err
	}
	if there, err := l.root.Lstat(h.name); err == nil && os.SameFile(info, there) {
		return nil
	}
	if err := l.root.RemoveAll(h.name); err != nil {
		return err
	}
	to, err := l.root.OpenFile(h.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(h.file, 0, info.Size()))
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	if o := l.output; o != nil && h.name == l.name(outputFile(o.n)) {
		o.open()
	}
	return l.holdFile(h.name)
}

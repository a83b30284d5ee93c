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

// maxOpen bounds the number of open files of a loop. Files of older runs cannot be
// restored.
const maxOpen = 256

// held is an open file of the log. Its content survives the removal of the file.
type held struct {
	name string
	file *os.File
}

// holdFile opens a file for [Log.Restore].
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
	if len(l.held) > maxOpen {
		_ = l.held[0].file.Close()
		l.held = l.held[1:]
	}
	return nil
}

// holdAll opens the files of earlier runs for [Log.Restore], which cannot restore
// those that cannot be opened.
func (l *Log) holdAll() {
	files, _ := fs.ReadDir(l.root.FS(), l.name(""))
	for _, f := range files {
		// The others are replaced atomically, or written by Restore itself.
		if f.Type().IsRegular() && (path.Ext(f.Name()) == ".log" || path.Ext(f.Name()) == ".jsonl") {
			_ = l.holdFile(l.name(f.Name()))
		}
	}
}

// Restore restores files of the log that an agent has removed or replaced.
func (l *Log) Restore() error {
	if l.output != nil {
		l.output.mu.Lock()
		defer l.output.mu.Unlock()
	}
	err := l.restoreDirs()
	if err == nil && !l.regular(l.name(loopFile)) {
		err = errors.Join(l.root.RemoveAll(l.name(loopFile)), l.save())
	}
	if err == nil && l.now != nil && !l.regular(l.name(nowFile)) {
		err = errors.Join(l.root.RemoveAll(l.name(nowFile)), l.SetNow(*l.now))
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

// restoreDirs creates missing directories and replaces other files.
func (l *Log) restoreDirs() error {
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

// restoreFile restores a file if it was removed or replaced.
func (l *Log) restoreFile(h held) error {
	info, err := h.file.Stat()
	if err != nil {
		return err
	}
	if current, err := l.root.Lstat(h.name); err == nil && os.SameFile(info, current) {
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
	if h.name == l.name(eventsFile) {
		if err := l.closeEvents(); err != nil {
			return err
		}
		return l.openEvents()
	}
	return l.holdFile(h.name)
}

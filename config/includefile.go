package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// IncludeFile is the file of a worktree with patterns of ignored files that its copies need. Claude Code,
// Codex, Conductor and others have the same convention for worktrees.
const IncludeFile = ".worktreeinclude"

// ReadIncludeFile returns the patterns of [IncludeFile], as in .gitignore; none if there is no file.
func ReadIncludeFile(root string) ([]string, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	f, err := dir.OpenFile(IncludeFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var text []byte
	if err == nil {
		text, err = readRegular(f)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", IncludeFile, err)
	}

	var patterns []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.ContainsRune(line, 0) {
			return nil, fmt.Errorf("reading %s: a pattern has a NUL byte", IncludeFile)
		}
		patterns = append(patterns, line)
	}
	return patterns, nil
}

package additions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

var (
	commitLine = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	hunkHeader = lazyregexp.New(`^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@`)
)

// readPatches reads the output of git diff-tree. The lines of a hunk are counted, so
// no content is taken for a header.
func readPatches(r *bufio.Reader, w *writer) error {
	for {
		raw, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch line := string(raw[:len(raw)-1]); {
		case commitLine().MatchString(line):
			err = w.commit(line)
		case strings.HasPrefix(line, "+++ "):
			err = readPath(line[len("+++ "):], w)
		case strings.HasPrefix(line, "@@"):
			err = readHunk(r, line, w)
		}
		if err != nil {
			return err
		}
	}
}

// readPath reads the path in a header. git appends a tab to one with blanks, and quotes
// one with special characters.
func readPath(name string, w *writer) error {
	name = strings.TrimSuffix(name, "\t")
	if strings.HasPrefix(name, `"`) {
		plain, err := strconv.Unquote(name)
		if err != nil {
			return fmt.Errorf("reading a diff: path %.100q: %w", name, err)
		}
		name = plain
	}
	return w.path(strings.TrimPrefix(name, "b/"))
}

func readHunk(r *bufio.Reader, header string, w *writer) error {
	m := hunkHeader().FindStringSubmatch(header)
	if m == nil {
		return fmt.Errorf("reading a diff: unexpected line %.100q", header)
	}
	there, err := strconv.Atoi(m[1])
	left := 1
	if err == nil && m[2] != "" {
		left, err = strconv.Atoi(m[2])
	}
	if err != nil {
		return fmt.Errorf("reading a diff: line %.100q: %w", header, err)
	}
	between := true // the previous line was not new
	for left > 0 {
		sign, err := r.ReadByte()
		if err != nil {
			return fmt.Errorf("reading a diff: hunk: %w", err)
		}
		fresh := false
		if sign == '+' {
			if fresh, err = w.isNew(there); err != nil {
				return err
			}
		}
		if fresh && between {
			if err := w.hunk(there); err != nil {
				return err
			}
		}
		if sign == '+' || sign == ' ' { // not a removed line or a remark
			between = !fresh
			left--
			there++
		}
		if err := copyLine(r, fresh, w); err != nil {
			return err
		}
	}
	return nil
}

// copyLine reads the rest of a line, and writes it if it is new.
func copyLine(r *bufio.Reader, fresh bool, w *writer) error {
	for {
		part, err := r.ReadSlice('\n')
		if fresh && len(part) > 0 {
			if err := w.line(part); err != nil {
				return err
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

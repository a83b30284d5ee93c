package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Edited is a text that the user has edited.
type Edited struct {
	Text string
	dir  string
}

// Edit lets the user edit a text in $VISUAL or $EDITOR. The name of its file tells the
// editor its language.
func (h Host) Edit(ctx context.Context, name, text string) (e Edited, err error) {
	if h.Terminal == nil {
		return e, errors.New("starting an editor: no terminal")
	}
	dir, err := os.MkdirTemp("", "docker-ralph-")
	if err != nil {
		return e, fmt.Errorf("creating a file to edit: %w", err)
	}
	e.dir = dir
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return e, errors.Join(fmt.Errorf("creating a file to edit: %w", err), e.Discard())
	}
	_, stop := h.Forward(ctx) // the editor handles Ctrl+C
	defer stop()
	editor := cmp.Or(h.Getenv("VISUAL"), h.Getenv("EDITOR"), defaultEditor())
	cmd := editorCommand(ctx, editor, path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, h.Stdout, h.Stderr
	if err := cmd.Run(); err != nil {
		err = hint.Wrap(fmt.Errorf("running the editor %q: %w", editor, err), "set EDITOR to another one")
		return e, errors.Join(err, e.Discard())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return e, fmt.Errorf("reading the edited text: %w", err)
	}
	e.Text = strings.ReplaceAll(string(content), "\r\n", "\n")
	return e, nil
}

// Discard removes the file.
func (e Edited) Discard() error { return os.RemoveAll(e.dir) }

// Keep adds to an error where the edited text is.
func (e Edited) Keep(err error) error {
	return hint.Wrap(err, "your changes are in %s", e.dir)
}

func defaultEditor() string {
	if runtime.GOOS == "windows" {
		return "notepad"
	}
	return "vi"
}

// editorCommand returns the command of an editor, which can have arguments. As git does, it
// leaves them to a shell.
func editorCommand(ctx context.Context, editor, path string) *exec.Cmd {
	ctx = context.WithoutCancel(ctx) // killing it would lose the text
	if runtime.GOOS == "windows" {
		words := strings.Fields(editor)
		return exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	}
	return exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, editor, path)
}

package shell

import (
	"context"
	"fmt"
	"io"
)

// maxAsked is Linux's limit of one argument, in bytes.
const maxAsked = 128<<10 - 1

// Ask runs a prompt as shell commands and reports to out.
func Ask(ctx context.Context, prompt io.Reader, out io.Writer) error {
	a := New(nil, "", out)
	asked, err := io.ReadAll(io.LimitReader(prompt, maxAsked+1))
	if err != nil {
		return a.finish(fmt.Errorf("reading the prompt: %w", err), 1, "")
	}
	if len(asked) > maxAsked {
		return a.finish(fmt.Errorf("prompt is longer than %d bytes", maxAsked), 1, "")
	}
	if err := a.out.Bash(string(asked)); err != nil {
		return err
	}
	if err := a.runStep(ctx, 1, string(asked)); err != nil {
		return a.finish(err, 1, "")
	}
	return a.finish(nil, 1, "Done.")
}

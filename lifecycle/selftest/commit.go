package selftest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// The task that the agent does for the test.
const (
	taskTitle  = "Prove that the loop works"
	taskFile   = "proof"
	taskScript = "echo done >" + taskFile
)

// commit runs the loop for one task, with the agent that needs no model, and checks
// that its commit arrives on this machine.
func (t *test) commit(ctx context.Context) (string, error) {
	before, err := git(ctx, t.root, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if err := t.sandbox.CreateTask(ctx, "proof", taskTitle, taskScript); err != nil {
		return "", err
	}
	if _, err := t.run(ctx, "build", "-n", "1"); err != nil {
		return "", err
	}
	// A sandbox with a private clone has its commits on another ref.
	made, err := git(ctx, t.root, "log", "--format=%h %s", "--all", "--not", before)
	if err != nil {
		return "", err
	}
	hash, title, _ := strings.Cut(made, " ")
	if title != taskTitle {
		return "", fmt.Errorf("ralph build succeeded without the commit %q: found %q", taskTitle, made)
	}
	content, err := git(ctx, t.root, "show", hash+":"+taskFile)
	if err != nil {
		return "", err
	}
	if content != "done" {
		return "", fmt.Errorf("the file of commit %s contains %q instead of %q", hash, content, "done")
	}
	owner, err := checkOwner(t.root)
	return strings.TrimSpace(hash + " " + owner), err
}

// run runs ralph in the sandbox. If it fails, the error includes its output.
func (t *test) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	code, err := t.sandbox.Ralph(ctx, &out, args...)
	output := strings.TrimSpace(out.String())
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	if err != nil {
		if output != "" {
			output = "\n" + output
		}
		return "", fmt.Errorf("ralph %s: %w%s", strings.Join(args, " "), err, output)
	}
	return output, nil
}

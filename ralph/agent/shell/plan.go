package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// Info is the info string of fenced code blocks with tasks for the shell agent.
const Info = "ralph-tasks"

// Plan adds the tasks in the specs of the current directory to the backlog.
func (a *Agent) Plan(ctx context.Context) error {
	specs, err := backlog.SpecFiles("specs")
	if err != nil {
		return a.finish(err, 1, "")
	}
	lines, err := readSpecs("specs", specs)
	if err != nil {
		return a.finish(err, 1, "")
	}
	if len(lines) == 0 {
		return a.finish(hint.Wrap(errors.New("no tasks found in specs/**/*.md"), "write tasks as JSON lines in fenced code blocks that begin with ```%s", Info), 1, "")
	}
	var plan bytes.Buffer
	for _, l := range lines {
		plan.Write(l.task)
		plan.WriteByte('\n')
	}
	sum, err := a.Backlog.Sync(ctx, &plan, specs...)
	if err != nil {
		return a.finish(locate(err, lines), 1, "")
	}
	summary := sum.String()
	for _, u := range sum.Unknown {
		summary += "\nWarning: " + u.String()
	}
	return a.finish(nil, 1, summary)
}

// line is a task with its location.
type line struct {
	file   string
	number int
	task   []byte
}

// readSpecs returns the tasks of specs in a directory.
func readSpecs(dir string, specs []string) ([]line, error) {
	var all []line
	for _, spec := range specs {
		file := filepath.Join(dir, filepath.FromSlash(spec))
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading specs: %w", err)
		}
		lines, err := tasksIn(file, spec, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, nil
}

// tasksIn returns the tasks in the fenced blocks of one spec.
func tasksIn(file, spec, text string) ([]line, error) {
	var found []line
	fence, tasks := "", false // the open fence, and whether it contains tasks
	number := 0
	for text := range strings.Lines(text) {
		number++
		text = strings.TrimSpace(text)
		mark, info := splitFence(text)
		switch {
		case fence == "" && mark != "":
			fence, tasks = mark, info == Info
		case fence != "" && strings.HasPrefix(mark, fence) && info == "":
			fence = ""
		case fence != "" && tasks && text != "":
			task, err := withSpec(text, spec)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, number, err)
			}
			found = append(found, line{file, number, task})
		}
	}
	return found, nil
}

// splitFence splits a line that opens or closes a fenced code block; mark is
// empty for other lines.
func splitFence(text string) (mark, info string) {
	for _, c := range []string{"`", "~"} {
		info = strings.TrimLeft(text, c)
		if mark = text[:len(text)-len(info)]; len(mark) >= 3 {
			return mark, strings.TrimSpace(info)
		}
	}
	return "", ""
}

// withSpec checks that text is a JSON object, and adds the spec if it has none.
func withSpec(text, spec string) ([]byte, error) {
	var task map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &task); err != nil || task == nil {
		return nil, fmt.Errorf("a task must be a JSON object on one line, not: %s", text)
	}
	if v := string(task["spec"]); v != "" && v != `""` && v != "null" {
		return []byte(text), nil
	}
	name, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	task["spec"] = name
	return json.Marshal(task)
}

// locate replaces "line 3: ..." in a backlog error by the spec's file and line.
func locate(err error, lines []line) error {
	var n int
	if _, scanErr := fmt.Sscanf(err.Error(), "line %d:", &n); scanErr != nil || n < 1 || n > len(lines) {
		return err
	}
	_, what, _ := strings.Cut(err.Error(), ": ")
	return fmt.Errorf("%s:%d: %s", lines[n-1].file, lines[n-1].number, what)
}

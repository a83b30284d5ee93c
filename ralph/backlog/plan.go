package backlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// parsePlan reads the lines of a plan. Blank lines are ignored and not numbered.
// The last line of a slug wins.
func parsePlan(r io.Reader) ([]NewTask, error) {
	var plan []NewTask
	at := map[string]int{}
	lines := bufio.NewReader(r)
	for n := 1; ; {
		line, readErr := lines.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return nil, fmt.Errorf("reading the plan: %w", readErr)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			task, err := ParsePlanLine(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			n++
			if i, duplicate := at[task.Slug]; duplicate {
				plan[i] = task
			} else {
				at[task.Slug] = len(plan)
				plan = append(plan, task)
			}
		}
		if readErr != nil {
			return plan, nil
		}
	}
}

// PlanLine returns a task as a line of a plan, without a newline.
func PlanLine(t NewTask) (string, error) {
	status := StatusOpen
	if t.Done {
		status = StatusDone
	}
	return encode(struct {
		ID       string   `json:"id"`
		Title    string   `json:"t"`
		Priority int      `json:"p"`
		Desc     string   `json:"d,omitempty"`
		Category string   `json:"cat,omitempty"`
		Spec     string   `json:"spec,omitempty"`
		Ref      string   `json:"ref,omitempty"`
		Steps    []string `json:"steps,omitempty"`
		Deps     []string `json:"deps,omitempty"`
		Status   string   `json:"status"`
	}{t.Slug, t.Title, t.Priority, t.Description, t.Category, t.SpecRef, t.Ref, t.Steps, t.Deps, status})
}

// planLine is a JSON object. Keys of a map, unlike struct fields, are
// case-sensitive.
type planLine map[string]json.RawMessage

const excerptLength = 80

// ParsePlanLine parses a line of a plan, which is not blank.
func ParsePlanLine(line []byte) (NewTask, error) {
	if line[0] == '[' {
		return NewTask{}, hint.Wrap(errors.New("expected a JSON object, found an array"), `pass one object per line, as printed by "jq -c '.[]'"`)
	}
	if !json.Valid(line) {
		excerpt := []rune(string(line))
		return NewTask{}, fmt.Errorf("invalid JSON: %s", string(excerpt[:min(len(excerpt), excerptLength)]))
	}
	var l planLine
	if err := json.Unmarshal(line, &l); err != nil {
		l = nil // not an object, so without an id
	}
	var t NewTask
	var errs [10]error
	if t.Slug, errs[0] = l.required("id"); errs[0] == nil {
		errs[0] = checkSlug(t.Slug)
	}
	t.Title, errs[1] = l.required("t")
	t.Priority, errs[2] = l.priority()
	t.Description, errs[3] = l.str("d")
	t.Category, errs[4] = l.str("cat")
	t.SpecRef, errs[5] = l.str("spec")
	t.Ref, errs[6] = l.str("ref")
	t.Steps, errs[7] = l.list("steps")
	t.Deps, errs[8] = l.list("deps")
	t.Done, errs[9] = l.done()
	for _, err := range errs {
		if err != nil {
			return NewTask{}, err
		}
	}
	return t, nil
}

func (l planLine) required(key string) (string, error) {
	s, err := l.str(key)
	if err == nil && s == "" {
		err = fmt.Errorf("field %q is missing or empty", key)
	}
	return s, err
}

// str returns a string, or a number as in the JSON. Absent, null and false are
// empty.
func (l planLine) str(key string) (string, error) {
	s, ok := scalar(l[key])
	if !ok {
		return "", fmt.Errorf("field %q must be a string, got: %s", key, compact(l[key]))
	}
	return s, nil
}

func scalar(raw json.RawMessage) (s string, ok bool) {
	switch {
	case len(raw) == 0, string(raw) == "null", string(raw) == "false":
		return "", true
	case raw[0] == '"':
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case raw[0] == '{', raw[0] == '[':
		return "", false
	}
	return string(raw), true
}

// priority returns "p", or "priority", which other programs write.
func (l planLine) priority() (int, error) {
	key := "p"
	raw, present := l[key]
	if !present {
		key = "priority"
		raw, present = l[key]
	}
	if !present || key == "priority" && string(raw) == "null" {
		return DefaultPriority, nil
	}
	if word, ok := scalar(raw); ok && key == "priority" {
		if i := slices.Index([]string{"critical", "high", "medium", "low"}, strings.ToLower(word)); i >= 0 {
			return i, nil
		}
	}
	// 1.0 and 1e2 are integers too.
	p, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || p < 0 || p > math.MaxInt32 || p != math.Trunc(p) {
		what := "a non-negative integer"
		if key == "priority" {
			what += ", or critical, high, medium or low"
		}
		return 0, fmt.Errorf("field %q must be %s, got: %s", key, what, compact(raw))
	}
	return int(p), nil
}

// done reports whether a task is done: "status", or "passes" of other programs.
func (l planLine) done() (bool, error) {
	word, ok := scalar(l["status"])
	switch word = strings.ToLower(word); {
	case ok && slices.Contains([]string{"done", "closed", "complete", "completed"}, word):
		return true, nil
	case !ok || !slices.Contains([]string{"open", "pending", "todo", ""}, word):
		return false, fmt.Errorf("field \"status\" must be \"open\" or \"done\", got: %s", compact(l["status"]))
	}
	switch raw := string(l["passes"]); raw {
	case "true":
		return true, nil
	case "false", "null", "":
		return false, nil
	default:
		return false, fmt.Errorf("field \"passes\" must be true or false, got: %s", compact(l["passes"]))
	}
}

func (l planLine) list(key string) ([]string, error) {
	raw := l[key]
	if s, ok := scalar(raw); ok && s == "" {
		return nil, nil
	}
	wrong := fmt.Errorf("field %q must be an array of strings, got: %s", key, compact(raw))
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, wrong
	}
	var list []string
	for _, element := range elements {
		s, ok := scalar(element)
		if !ok {
			return nil, wrong
		}
		if s != "" {
			list = append(list, s)
		}
	}
	return list, nil
}

// compact returns JSON without insignificant white space.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

package backlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// parsePlan reads the lines of a plan. Blank lines do not count. If a slug
// occurs twice, the later line wins.
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
			task, err := parseLine(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			n++
			if i, double := at[task.Slug]; double {
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

// planLine is one JSON object. A map and not a struct, because struct fields
// would match keys in any case.
type planLine map[string]json.RawMessage

const excerptLength = 80

func parseLine(line []byte) (NewTask, error) {
	if !json.Valid(line) {
		excerpt := []rune(string(line))
		return NewTask{}, fmt.Errorf("invalid JSON: %s", string(excerpt[:min(len(excerpt), excerptLength)]))
	}
	var l planLine
	if err := json.Unmarshal(line, &l); err != nil {
		l = nil // valid JSON, but no object: it has no id either
	}
	var t NewTask
	var errs [9]error
	t.Slug, errs[0] = l.required("id")
	t.Title, errs[1] = l.required("t")
	t.Priority, errs[2] = l.priority()
	t.Description, errs[3] = l.text("d")
	t.Category, errs[4] = l.text("cat")
	t.SpecRef, errs[5] = l.text("spec")
	t.Ref, errs[6] = l.text("ref")
	t.Steps, errs[7] = l.list("steps")
	t.Deps, errs[8] = l.list("deps")
	for _, err := range errs {
		if err != nil {
			return NewTask{}, err
		}
	}
	return t, nil
}

func (l planLine) required(key string) (string, error) {
	text, err := l.text(key)
	if err == nil && text == "" {
		err = fmt.Errorf("field %q is missing or empty", key)
	}
	return text, err
}

// text returns a string, or a number in the words of JSON. Absent, null and
// false are empty.
func (l planLine) text(key string) (string, error) {
	text, ok := scalar(l[key])
	if !ok {
		return "", fmt.Errorf("field %q must be a string, got: %s", key, compact(l[key]))
	}
	return text, nil
}

func scalar(raw json.RawMessage) (text string, ok bool) {
	switch {
	case len(raw) == 0, string(raw) == "null", string(raw) == "false":
		return "", true
	case raw[0] == '"':
		err := json.Unmarshal(raw, &text)
		return text, err == nil
	case raw[0] == '{', raw[0] == '[':
		return "", false
	}
	return string(raw), true
}

func (l planLine) priority() (int, error) {
	raw, present := l["p"]
	if !present {
		return DefaultPriority, nil
	}
	// 1.0 and 1e2 are integers too.
	p, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || p < 0 || p > math.MaxInt32 || p != math.Trunc(p) {
		return 0, fmt.Errorf("field \"p\" must be a non-negative integer, got: %s", compact(raw))
	}
	return int(p), nil
}

func (l planLine) list(key string) ([]string, error) {
	raw := l[key]
	if text, ok := scalar(raw); ok && text == "" {
		return nil, nil
	}
	wrong := fmt.Errorf("field %q must be an array of strings, got: %s", key, compact(raw))
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, wrong
	}
	var list []string
	for _, element := range elements {
		text, ok := scalar(element)
		if !ok {
			return nil, wrong
		}
		if text != "" {
			list = append(list, text)
		}
	}
	return list, nil
}

// compact returns JSON on one line, without blanks.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

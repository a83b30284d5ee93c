package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// option is a flag with a value.
type option struct {
	value string
	given bool
}

// pointer returns the value, or nil if the flag was not given.
func (o *option) pointer() *string {
	if !o.given {
		return nil
	}
	return &o.value
}

// flags are the flags of a command. The argument after an option is its value,
// even if it looks like a flag. The last of repeated flags wins.
type flags struct {
	options    map[string]*option
	switches   map[string]*bool
	lists      map[string]*[]string   // options that can be repeated
	positional func(arg string) error // nil: no positional arguments
}

func (f flags) parse(args []string) error {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if on, ok := f.switches[arg]; ok {
			*on = true
			continue
		}
		if o, ok := f.options[arg]; ok {
			if i++; i == len(args) {
				return fmt.Errorf("%s requires a value", arg)
			}
			*o = option{value: args[i], given: true}
			continue
		}
		if list, ok := f.lists[arg]; ok {
			if i++; i == len(args) {
				return fmt.Errorf("%s requires a value", arg)
			}
			*list = append(*list, args[i])
			continue
		}
		if f.positional == nil || strings.HasPrefix(arg, "-") && arg != "-" {
			return fmt.Errorf("unknown flag '%s'", arg)
		}
		if err := f.positional(arg); err != nil {
			return err
		}
	}
	return nil
}

// takeID returns the first argument, the id, and the others.
func takeID(args []string, usage string) (id string, rest []string, err error) {
	if len(args) == 0 || args[0] == "" {
		return "", nil, missing("task ID", usage)
	}
	return args[0], args[1:], nil
}

func missing(what, usage string) error {
	return fmt.Errorf("missing %s\nUsage: ralph task %s", what, usage)
}

// number parses a non-negative integer; name is for the error.
func number(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || strings.Trim(value, "0123456789") != "" {
		return 0, fmt.Errorf("%s must be a non-negative integer, got: %s", name, value)
	}
	return n, nil
}

func priority(o option) (int, error) { return number("-p (priority)", o.value) }

// maxLease is the longest time.Duration, in seconds.
const maxLease = math.MaxInt64 / int(time.Second)

// lease parses a lease in seconds.
func lease(value string) (time.Duration, error) {
	seconds, err := number("--lease", value)
	if err != nil {
		return 0, err
	}
	if seconds > maxLease {
		return 0, fmt.Errorf("--lease must be at most %d seconds, got: %s", maxLease, value)
	}
	return time.Duration(seconds) * time.Second, nil
}

// steps parses a JSON array of strings; an empty value and null are no steps.
func steps(name, value string) ([]string, error) {
	if value == "" {
		return nil, nil
	}
	var list []*string
	if json.Unmarshal([]byte(value), &list) != nil || slices.Contains(list, nil) {
		return nil, fmt.Errorf("%s must be a JSON array of strings, got: %s", name, value)
	}
	out := make([]string, 0, len(list))
	for _, step := range list {
		out = append(out, *step)
	}
	return out, nil
}

// csv splits a comma-separated list, without white space and empty elements.
func csv(value string) []string {
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// hasCommit reports whether a result is a JSON object with a commit.
func hasCommit(result string) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(result), &object) != nil {
		return false
	}
	commit := bytes.TrimSpace(object["commit"])
	return len(commit) > 0 && string(commit) != "null" && string(commit) != "false"
}

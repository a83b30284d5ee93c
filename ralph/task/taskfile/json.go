package taskfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// value is a JSON value and its line in the file.
type value struct {
	raw  json.RawMessage
	line int
}

// object is a JSON object. Its keys are case-sensitive.
type object map[string]value

// parseValues parses JSON: one value or several, such as one per line.
func parseValues(data []byte) ([]value, error) {
	return decodeValues(value{data, 1}, json.NewDecoder(bytes.NewReader(data)))
}

// decodeValues decodes the values that follow in a decoder of v, up to the end or to the next delimiter.
func decodeValues(v value, d *json.Decoder) ([]value, error) {
	var values []value
	line, counted := v.line, int64(0)
	for d.More() {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, syntaxError(v, err)
		}
		start := d.InputOffset() - int64(len(raw))
		line += bytes.Count(v.raw[counted:start], []byte("\n"))
		counted = start
		values = append(values, value{raw, line})
	}
	return values, nil
}

// syntaxError returns an error of the decoder of v with its line.
func syntaxError(v value, err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	offset := int64(len(v.raw))
	if ok {
		offset = min(offset, syntax.Offset)
	}
	line := v.line + bytes.Count(bytes.TrimRight(v.raw[:offset], "\n"), []byte("\n"))
	return lineError(line, "invalid JSON: %w", err)
}

// array returns the elements of an array. null is empty.
func (v value) array() ([]value, error) {
	if v.absent() {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(v.raw))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return nil, v.wrong("an array")
	}
	return decodeValues(v, d)
}

// object returns the members of an object.
func (v value) object() (object, error) {
	d := json.NewDecoder(bytes.NewReader(v.raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, v.wrong("an object")
	}
	members := object{}
	line, counted := v.line, int64(0)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, syntaxError(v, err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, syntaxError(v, err)
		}
		start := d.InputOffset() - int64(len(raw))
		line += bytes.Count(v.raw[counted:start], []byte("\n"))
		counted = start
		members[fmt.Sprint(key)] = value{raw, line}
	}
	return members, nil
}

func (v value) absent() bool { return len(v.raw) == 0 || string(v.raw) == "null" }

func (v value) isArray() bool { return len(v.raw) > 0 && v.raw[0] == '[' }

// excerptLength bounds the part of a value that an error shows, in characters.
const excerptLength = 60

func (v value) wrong(want string) error {
	return lineError(v.line, "expected %s, found: %s", want, termsafe.Shorten(string(v.raw), excerptLength))
}

// str returns a string, or a number as in the JSON. null is empty.
func (v value) str() (s string, err error) {
	switch {
	case v.absent():
		return "", nil
	case v.raw[0] == '"':
		err = json.Unmarshal(v.raw, &s)
		return s, err
	case strings.ContainsRune("-0123456789", rune(v.raw[0])):
		return string(v.raw), nil
	}
	return "", v.wrong("a string")
}

// strs returns an array of strings; a string is one of one element.
func (v value) strs() ([]string, error) {
	if !v.isArray() {
		s, err := v.str()
		if s == "" {
			return nil, err
		}
		return []string{s}, err
	}
	elements, err := v.array()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range elements {
		s, err := e.str()
		if err != nil {
			s = string(e.raw) // shown as it is, such as a criterion with fields of its own
		}
		list = append(list, s)
	}
	return list, nil
}

func (v value) boolean() (bool, error) {
	switch {
	case v.absent(), string(v.raw) == "false":
		return false, nil
	case string(v.raw) == "true":
		return true, nil
	}
	return false, v.wrong("true or false")
}

// fields reads the fields of a task, and remembers the first error. Names are alternatives: the first one that the task
// has counts.
type fields struct {
	object
	line int
	err  error
	used map[string]bool
}

// fields returns the fields of a task.
func (v value) fields() (*fields, error) {
	o, err := v.object()
	return &fields{object: o, line: v.line, used: map[string]bool{}}, err
}

func (f *fields) get(names ...string) value {
	var found value
	for _, name := range slices.Backward(names) {
		f.used[name] = true
		if v, ok := f.object[name]; ok && !v.absent() {
			found = v
		}
	}
	return found
}

func (f *fields) check(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) str(names ...string) string {
	s, err := f.get(names...).str()
	f.check(err)
	return s
}

func (f *fields) strs(names ...string) []string {
	list, err := f.get(names...).strs()
	f.check(err)
	return list
}

// text returns a string, or the strings of an array as lines.
func (f *fields) text(names ...string) string { return strings.Join(f.strs(names...), "\n") }

func (f *fields) boolean(name string) bool {
	b, err := f.get(name).boolean()
	f.check(err)
	return b
}

// end returns the first error, and reports the fields that were not read and are not empty.
func (f *fields) end(r *reader) error {
	for name := range maps.Keys(f.object) {
		empty := slices.Contains([]string{`""`, "[]", "{}", "null"}, string(f.object[name].raw))
		if !f.used[name] && !empty {
			r.ignore(oneLine(name))
		}
	}
	return f.err
}

// elements returns the elements of the values, which are objects or arrays of objects.
func elements(values []value) ([]value, error) {
	var all []value
	for _, v := range values {
		if !v.isArray() {
			all = append(all, v)
			continue
		}
		list, err := v.array()
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// sample returns the first object of the values, for detection.
func sample(values []value) object {
	if len(values) > 0 && values[0].isArray() {
		list, err := values[0].array()
		if err != nil || len(list) == 0 {
			return nil
		}
		values = list
	}
	if len(values) == 0 {
		return nil
	}
	o, err := values[0].object()
	if err != nil {
		return nil
	}
	return o
}

func (o object) has(names ...string) bool {
	for _, name := range names {
		if _, ok := o[name]; !ok {
			return false
		}
	}
	return true
}

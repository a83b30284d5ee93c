package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// object is a task as JSON, with the short keys of a plan or the long ones of the
// database.
type object map[string]json.RawMessage

// renderObject prints a JSON object as a markdown section.
func renderObject(_ context.Context, s *session, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return errors.New("missing JSON object\nUsage: ralph task _render-md '<json>'")
	}
	var o object
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return fmt.Errorf("reading the JSON object: %w", err)
	}
	if o == nil {
		return errors.New("null is not a JSON object")
	}
	s.printSections([]record{{
		slug: o.str("id"), title: o.str("t", "title"), priority: o.str("p", "priority"),
		status: o.str("s", "status"), category: o.str("cat", "category"), spec: o.str("spec"), ref: o.str("ref"),
		assignee: o.str("assignee"), lease: o.str("lease_expires_at"), retries: o.str("retry_count"),
		deps: o.list("deps"), steps: o.list("steps"), results: o.results("blocker_results"),
	}})
	return nil
}

// str returns the value of the first key that has one.
func (o object) str(keys ...string) string {
	for _, key := range keys {
		if s := plain(o[key]); s != "" {
			return s
		}
	}
	return ""
}

// plain returns a string unquoted, null as "", and other values as JSON.
func plain(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return compactJSON(string(raw))
}

// list returns the elements of an array, or another value as the only element.
func (o object) list(key string) []string {
	var elements []json.RawMessage
	if json.Unmarshal(o[key], &elements) != nil {
		if s := plain(o[key]); s != "" {
			return []string{s}
		}
		return nil
	}
	var list []string
	for _, element := range elements {
		list = append(list, plain(element))
	}
	return list
}

// results parses {"slug": result}, or an array of objects with slug (or id) and
// result.
func (o object) results(key string) []result {
	var list []result
	var bySlug object
	if json.Unmarshal(o[key], &bySlug) == nil {
		for _, slug := range slices.Sorted(maps.Keys(bySlug)) {
			list = appendResult(list, slug, bySlug[slug])
		}
		return list
	}
	var elements []object
	if json.Unmarshal(o[key], &elements) != nil {
		return nil
	}
	for _, element := range elements {
		list = appendResult(list, element.str("slug", "id"), element["result"])
	}
	return list
}

// appendResult appends a result, which is JSON or JSON in a string, unless it is
// null.
func appendResult(list []result, slug string, raw json.RawMessage) []result {
	if len(raw) == 0 || string(raw) == "null" {
		return list
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && json.Valid([]byte(s)) {
		return append(list, result{slug: slug, json: compactJSON(s)})
	}
	return append(list, result{slug: slug, json: compactJSON(string(raw))})
}

package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// object is a task as JSON, in the short names of a plan or the long ones of
// the database.
type object map[string]json.RawMessage

// renderObject prints one JSON object as a markdown section.
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
		slug: o.text("id"), title: o.text("t", "title"), priority: o.text("p", "priority"),
		status: o.text("s", "status"), category: o.text("cat", "category"), spec: o.text("spec"), ref: o.text("ref"),
		assignee: o.text("assignee"), lease: o.text("lease_expires_at"), retries: o.text("retry_count"),
		deps: o.list("deps"), steps: o.list("steps"), results: o.results("blocker_results"),
	}})
	return nil
}

// text returns the first of the keys that has a value.
func (o object) text(keys ...string) string {
	for _, key := range keys {
		if text := plain(o[key]); text != "" {
			return text
		}
	}
	return ""
}

// plain returns a string as it is, null as nothing, and all else as JSON.
func plain(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return compactJSON(string(raw))
}

// list returns the elements of an array; anything else is one element.
func (o object) list(key string) []string {
	var elements []json.RawMessage
	if json.Unmarshal(o[key], &elements) != nil {
		if text := plain(o[key]); text != "" {
			return []string{text}
		}
		return nil
	}
	var list []string
	for _, element := range elements {
		list = append(list, plain(element))
	}
	return list
}

// results reads {"slug": result}, or a list of objects with slug (or id) and
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
		list = appendResult(list, element.text("slug", "id"), element["result"])
	}
	return list
}

// appendResult adds a result, which may be JSON or JSON inside a string;
// blockers without a result are left out.
func appendResult(list []result, slug string, raw json.RawMessage) []result {
	if len(raw) == 0 || string(raw) == "null" {
		return list
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return append(list, result{slug: slug, json: compactJSON(text)})
	}
	return append(list, result{slug: slug, json: compactJSON(string(raw))})
}

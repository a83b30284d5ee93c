package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/docker-ralph/docker-ralph/hint"
)

// assigned is one value from one source; of a list, one item.
type assigned struct {
	setting setting
	value   string
	origin  Origin
	// fail adds the position to an error about the value.
	fail func(error) error
}

// interpret turns a document into values of known keys. All mistakes of shape
// are reported at once.
func (d document) interpret() ([]assigned, error) {
	assignments, err := d.parse()
	if err != nil {
		return nil, d.foreignHint(err)
	}
	known := schema()
	var values []assigned
	var problems []error
	seen, other := map[string]bool{}, foreign{}
	for _, a := range assignments {
		if len(problems) > maxProblems {
			break
		}
		if i := known.unknownFrom(a.key); i < len(a.key) {
			// One mistake in a table's name is not one per key in it.
			if wrong := join(a.key[:i+1]); !seen[wrong] {
				seen[wrong] = true
				problem, similar := known.unknownProblem(d, a, i)
				problems = append(problems, problem)
				other.count(problem, i, similar)
			}
			continue
		}
		s, isSetting := known.setting(a.key)
		switch {
		case isSetting && s.form == list:
			item, err := d.wholeList(s, a)
			values, problems = append(values, item), appendError(problems, err)
			if err == nil {
				other.known++
			}
		case isSetting && s.form == names:
			items, err := d.list(s, a)
			values, problems = append(values, items...), appendError(problems, err)
			if err == nil {
				other.known++
			}
		case isSetting:
			item, err := d.assign(s, a, a.value)
			values, problems = append(values, item), appendError(problems, err)
			if err == nil {
				other.known++
			}
		case !a.value.isTable() || a.value.kind == unstable.ArrayTable:
			problems = append(problems, d.problem(a.at(), "%s must be a table: write [%s] and its keys below", a.path(), a.path()))
		}
	}
	if err := other.error(d); err != nil {
		return nil, err
	}
	switch err := joinProblems(problems); {
	case other.top:
		return nil, d.foreignHint(err)
	case err != nil:
		return nil, err
	}
	return values, d.decodes()
}

func appendError(all []error, err error) []error {
	if err == nil {
		return all
	}
	return append(all, err)
}

// assign reads a value of the setting, or an item of its list.
func (d document) assign(s setting, a assignment, v node) (assigned, error) {
	at := v.at
	if at.end == at.start || v.isTable() {
		at = a.at()
	}
	fail := func(err error) error { return d.settingProblem(at, a, err) }
	content, err := s.read(v)
	if err != nil {
		return assigned{}, fail(err)
	}
	origin := Origin{Kind: d.from, Name: d.path, Line: d.line(at.start)}
	return assigned{setting: s, value: content, origin: origin, fail: fail}, nil
}

// wholeList reads a list as one value.
func (d document) wholeList(s setting, a assignment) (assigned, error) {
	items, err := d.list(s, a)
	if err != nil {
		return assigned{}, err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.value
	}
	b, err := json.Marshal(texts)
	if err != nil {
		return assigned{}, err
	}
	whole := assigned{setting: s, value: string(b)}
	at := a.key[len(a.key)-1].at
	whole.origin = Origin{Kind: d.from, Name: d.path, Line: d.line(at.start)}
	whole.fail = func(err error) error { return d.settingProblem(at, a, err) }
	return whole, nil
}

// list reads the items of a list.
func (d document) list(s setting, a assignment) ([]assigned, error) {
	if a.value.kind != unstable.Array {
		return nil, d.problem(a.at(), "%s: must be %s", a.path(), s.form)
	}
	if len(a.value.items) > maxNames {
		return nil, d.problem(a.at(), "%s: more than %d items", a.path(), maxNames)
	}
	var items []assigned
	for _, v := range a.value.items {
		item, err := d.assign(s, a, v)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// known is what can stand in a file: settings and the tables around them.
type known struct {
	settings map[string]setting
	tables   map[string]bool
}

func schema() known {
	k := known{settings: map[string]setting{}, tables: map[string]bool{"": true}}
	for _, s := range settings() {
		k.settings[s.key] = s
		for i := range s.key {
			if s.key[i] == '.' {
				k.tables[s.key[:i]] = true
			}
		}
	}
	return k
}

// setting looks up the setting of a key.
func (k known) setting(key []part) (setting, bool) {
	s, found := k.settings[schemaPath(key)]
	if found && s.setNamed != nil {
		s = s.named(key[1].name)
	}
	return s, found
}

// schemaPath is the key as the schema has it, with anyName for a chosen name.
func schemaPath(key []part) string {
	names := make([]string, len(key))
	for i, p := range key {
		names[i] = p.name
		if i == 1 && (names[0] == tableAgents || names[0] == tablePrices) {
			names[i] = anyName
		}
	}
	return strings.Join(names, ".")
}

// unknownFrom returns the index of the first unknown component, or the key's
// length.
func (k known) unknownFrom(key []part) int {
	for i := range key {
		// A dot within a quoted component does not separate tables. Models have dots in their names.
		dotted := strings.Contains(key[i].name, ".") && (i != 1 || key[0].name != tablePrices)
		if path := schemaPath(key[:i+1]); dotted || !k.tables[path] && !k.isSetting(path) {
			return i
		}
	}
	return len(key)
}

func (k known) isSetting(path string) bool {
	_, found := k.settings[path]
	return found
}

// removed are the keys of earlier versions, and what has become of them.
func removed() map[string]string {
	return map[string]string{
		"sandbox.git":                 fmt.Sprintf("it is part of workspace, which is %q or %q: the agent has a clone, or your worktree with its git directory", WorkspaceClone, WorkspaceLive),
		"sandbox.shadow_node_modules": "a clone has node_modules of its own",
	}
}

// unknownProblem reports an unknown key and suggests the nearest one, if one is similar.
func (k known) unknownProblem(d document, a assignment, i int) (problem *FileError, similar bool) {
	table, name := join(a.key[:i]), a.key[i].name
	if inSchema := schemaPath(a.key[:i]); k.isSetting(inSchema) {
		return d.problem(a.key[i].at, "%s is not a table: must be %s", table, k.settings[inSchema].form), true
	}
	what := fmt.Sprintf("unknown key %q", name)
	if a.value.isTable() {
		what = fmt.Sprintf("unknown table %q", name)
	}
	if table != "" {
		what += fmt.Sprintf(" in [%s]", table)
	}
	if why := removed()[table+"."+name]; why != "" {
		return d.problem(a.key[i].at, "%s: %s", what, why), true
	}
	siblings := k.children(schemaPath(a.key[:i]))
	if near := hint.Nearest(name, siblings); near != "" {
		return d.problem(a.key[i].at, "%s; did you mean %q?", what, near), true
	}
	for _, key := range slices.Sorted(maps.Keys(k.settings)) {
		if home, found := strings.CutSuffix(key, "."+name); found && !strings.Contains(home, anyName) {
			return d.problem(a.key[i].at, "%s; it belongs in [%s]", what, home), true
		}
	}
	return d.problem(a.key[i].at, "%s; known keys: %s", what, strings.Join(siblings, ", ")), false
}

// children are the keys and tables directly below a table, sorted.
func (k known) children(table string) []string {
	below := map[string]bool{}
	for path := range k.settings {
		rest := path
		if table != "" {
			var inside bool
			if rest, inside = strings.CutPrefix(path, table+"."); !inside {
				continue
			}
		}
		name, _, _ := strings.Cut(rest, ".")
		below[name] = true
	}
	return slices.Sorted(maps.Keys(below))
}

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// given is one value from one source: of a list, one item.
type given struct {
	setting setting
	value   string
	origin  Origin
	// fail says what is wrong with the value, and where it is.
	fail func(error) error
}

// interpret turns a document into values of known keys. All mistakes of shape
// are reported at once.
func (d document) interpret() ([]given, error) {
	assignments, err := d.parse()
	if err != nil {
		return nil, err
	}
	known := schema()
	var values []given
	var problems []error
	told := map[string]bool{}
	for _, a := range assignments {
		if len(problems) > maxProblems {
			break
		}
		if i := known.unknownFrom(a.key); i < len(a.key) {
			// One mistake in a table's name is not one per key in it.
			if wrong := join(a.key[:i+1]); !told[wrong] {
				told[wrong] = true
				problems = append(problems, known.unknownProblem(d, a, i))
			}
			continue
		}
		s, isSetting := known.setting(a.key)
		switch {
		case isSetting && s.form == list:
			item, err := d.wholeList(s, a)
			values, problems = append(values, item), appendError(problems, err)
		case isSetting && s.form == names:
			items, err := d.list(s, a)
			values, problems = append(values, items...), appendError(problems, err)
		case isSetting:
			item, err := d.given(s, a, a.value)
			values, problems = append(values, item), appendError(problems, err)
		case !a.value.isTable() || a.value.kind == unstable.ArrayTable:
			problems = append(problems, d.problem(a.at(), "%s is a table: write [%s], and its keys below", a.path(), a.path()))
		}
	}
	if len(problems) > 0 {
		return nil, joinProblems(problems)
	}
	return values, d.decodes()
}

func appendError(all []error, err error) []error {
	if err == nil {
		return all
	}
	return append(all, err)
}

// given takes a value of the setting, or an item of its list.
func (d document) given(s setting, a assignment, v node) (given, error) {
	at := v.at
	if at.end == at.start || v.isTable() {
		at = a.at()
	}
	fail := func(err error) error { return d.problem(at, "%s: %v", a.path(), err) }
	content, err := s.read(v)
	if err != nil {
		return given{}, fail(err)
	}
	origin := Origin{Kind: d.from, Name: d.path, Line: d.line(at.start)}
	return given{setting: s, value: content, origin: origin, fail: fail}, nil
}

// wholeList takes a list as one value.
func (d document) wholeList(s setting, a assignment) (given, error) {
	items, err := d.list(s, a)
	if err != nil {
		return given{}, err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.value
	}
	b, err := json.Marshal(texts)
	if err != nil {
		return given{}, err
	}
	whole := given{setting: s, value: string(b)}
	at := a.key[len(a.key)-1].at
	whole.origin = Origin{Kind: d.from, Name: d.path, Line: d.line(at.start)}
	whole.fail = func(err error) error { return d.problem(at, "%s: %v", a.path(), err) }
	return whole, nil
}

// list takes the items of a list.
func (d document) list(s setting, a assignment) ([]given, error) {
	if a.value.kind != unstable.Array {
		return nil, d.problem(a.at(), "%s: it has to be %s", a.path(), s.form)
	}
	if len(a.value.items) > maxNames {
		return nil, d.problem(a.at(), "%s: more than %d items", a.path(), maxNames)
	}
	var items []given
	for _, v := range a.value.items {
		item, err := d.given(s, a, v)
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

// setting looks the setting of a key up. One below a table of free names is
// for the name in the key.
func (k known) setting(key []part) (setting, bool) {
	s, found := k.settings[schemaPath(key)]
	if found && s.setNamed != nil {
		s = s.called(key[1].name)
	}
	return s, found
}

// schemaPath is the key as the schema has it: a free name is any name.
func schemaPath(key []part) string {
	names := make([]string, len(key))
	for i, p := range key {
		names[i] = p.name
		if i == 1 && names[0] == tableAgents {
			names[i] = anyName
		}
	}
	return strings.Join(names, ".")
}

// unknownFrom is the index of the first component that leads nowhere, or the
// key's length.
func (k known) unknownFrom(key []part) int {
	for i := range key {
		// A dot within a quoted component is no way into a table.
		if path := schemaPath(key[:i+1]); strings.Contains(key[i].name, ".") || !k.tables[path] && !k.isSetting(path) {
			return i
		}
	}
	return len(key)
}

func (k known) isSetting(path string) bool {
	_, found := k.settings[path]
	return found
}

// unknownProblem explains a key that does not exist, with the one that was
// most likely meant.
func (k known) unknownProblem(d document, a assignment, i int) error {
	table, name := join(a.key[:i]), a.key[i].name
	if inSchema := schemaPath(a.key[:i]); k.isSetting(inSchema) {
		return d.problem(a.key[i].at, "%s has no keys of its own: it has to be %s", table, k.settings[inSchema].form)
	}
	what := fmt.Sprintf("unknown key %q", name)
	if a.value.isTable() {
		what = fmt.Sprintf("unknown table %q", name)
	}
	if table != "" {
		what += fmt.Sprintf(" in [%s]", table)
	}
	siblings := k.children(schemaPath(a.key[:i]))
	if near := nearest(name, siblings); near != "" {
		return d.problem(a.key[i].at, "%s; did you mean %q?", what, near)
	}
	for _, key := range slices.Sorted(maps.Keys(k.settings)) {
		if home, found := strings.CutSuffix(key, "."+name); found && !strings.Contains(home, anyName) {
			return d.problem(a.key[i].at, "%s; it belongs into [%s]", what, home)
		}
	}
	return d.problem(a.key[i].at, "%s; known here: %s", what, strings.Join(siblings, ", "))
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

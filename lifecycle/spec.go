package lifecycle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/egress"
)

// Settings encodes the properties that only a new sandbox can have, by name, without
// defaults.
func (s Spec) Settings() string {
	encoded, _ := json.Marshal(s.settings()) // strings cannot fail
	return string(encoded)
}

func (s Spec) settings() map[string]string {
	all := map[string]string{
		"worktree":       s.Root,
		"mounts":         strings.Join(s.Mounts, string(filepath.ListSeparator)),
		"agent":          s.Agent,
		"image":          s.Image,
		"user":           fmt.Sprintf("%d:%d", s.User.UID, s.User.GID),
		"runtime":        s.Runtime,
		"signing":        s.SignDir,
		"network policy": string(s.Egress.Policy.Mode),
	}
	for name, on := range map[string]bool{
		private:                     s.Private,
		"read-only root filesystem": s.ReadOnly,
		"copy of agent settings":    s.Config != "", // not its path: the Docker configuration directory can move
		"cache":                     s.Cache != "",
	} {
		if on {
			all[name] = "on"
		}
	}
	for name, bytes := range map[string]int64{"tmp": s.Tmp, "shm": s.Shm} {
		if bytes > 0 {
			all[name] = units.BytesSize(float64(bytes))
		}
	}
	if s.Clone {
		all["workspace"] = "clone"
	}
	if s.Cache != "" && s.MainRoot == "" {
		all["cache"] = s.Cache
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// private is a setting that goes together with the workspace of a container, and is that of a microVM.
const private = "private git directory"

// essential reports whether a sandbox with another value of a setting is of no use, whatever runs in it.
func essential(setting string) bool {
	return slices.Contains([]string{"worktree", "mounts", "user", private, "workspace"}, setting)
}

// Difference is a setting that a sandbox has from its configuration.
type Difference struct {
	Setting string `json:"setting"`
	From    string `json:"from"` // the sandbox's
	To      string `json:"to"`   // the configuration's
}

func (d Difference) String() string {
	if d.Setting == private {
		d.Setting = "clone"
	}
	return fmt.Sprintf("%s from %s to %s", d.Setting, cmp.Or(d.From, "default"), cmp.Or(d.To, "default"))
}

func describe(differences []Difference) string {
	const most = 8
	var clauses []string
	for i, d := range differences {
		if i == most {
			clauses = append(clauses, fmt.Sprintf("and %d more", len(differences)-most))
			break
		}
		clauses = append(clauses, d.String())
	}
	return strings.Join(clauses, ", ")
}

// conflicts returns the differences for which a sandbox has to be recreated.
func (s Spec) conflicts(sb Sandbox) []Difference {
	want := s.settings()
	var has map[string]string
	if json.Unmarshal([]byte(sb.Settings), &has) != nil {
		return []Difference{{Setting: "version of docker-ralph", From: "an earlier one", To: s.Version}}
	}
	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if has[name] != want[name] {
			all = append(all, Difference{name, has[name], want[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, both := want[name]; !both {
			all = append(all, Difference{name, has[name], ""})
		}
	}
	return all
}

// changes returns the differences in limits and network rules, which an [Adjuster] can apply
// to an existing sandbox.
func (s Spec) changes(sb Sandbox) []Difference {
	var all []Difference
	if want, has := s.Resources, sb.Resources; want != (Resources{}) {
		memory := func(bytes int64) string { return units.BytesSize(float64(bytes)) }
		cpus := func(nano int64) string { return strconv.FormatFloat(float64(nano)/1e9, 'f', -1, 64) }
		pids := func(n int64) string { return strconv.FormatInt(n, 10) }
		for _, limit := range []struct {
			name      string
			has, want int64
			format    func(int64) string
		}{{"memory", has.Memory, want.Memory, memory}, {"cpus", has.NanoCPUs, want.NanoCPUs, cpus}, {"pids", has.Pids, want.Pids, pids}} {
			if limit.has != limit.want {
				all = append(all, Difference{limit.name, limit.format(limit.has), limit.format(limit.want)})
			}
		}
	}
	if rules := s.Egress.Rules(); sb.Rules != "" && sb.Rules != rules {
		all = append(all, ruleChanges(strings.Split(sb.Rules, "\n"), strings.Split(rules, "\n"))...)
	}
	return all
}

func ruleChanges(has, want []string) []Difference {
	var all []Difference
	for _, rule := range want {
		if !slices.Contains(has, rule) {
			all = append(all, Difference{"network rule " + rule, "off", "on"})
		}
	}
	for _, rule := range has {
		if !slices.Contains(want, rule) {
			all = append(all, Difference{"network rule " + rule, "on", "off"})
		}
	}
	return all
}

// Rules identifies the rules of a policy, regardless of their order and origin: a line for
// each.
func (e Egress) Rules() string {
	if e.Policy.Mode == "" {
		return ""
	}
	lines := []string{"policy " + string(e.Policy.Mode)}
	for decision, entries := range map[string][]egress.Entry{"allow ": e.Policy.Rules, "deny ": e.Policy.Refused} {
		for _, entry := range entries {
			line := decision + entry.Rule.String()
			if entry.Model {
				line += " (model)"
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// Check checks that a sandbox with the spec's name belongs to the same scope and
// worktree. Names do not contain the whole scope, so they can collide.
func (s Spec) Check(sb Sandbox) error {
	if sb.Scope != s.Scope || sb.Root != s.Root {
		return fmt.Errorf("sandbox %s belongs to %s, branch %q, in %s", sb.Name, sb.Scope.Repo, sb.Scope.Branch, sb.Root)
	}
	return nil
}

// canAdopt reports whether a sandbox may be recreated for the spec's worktree, because
// its own has moved there.
func (s Spec) canAdopt(sb Sandbox) bool {
	return s.Moved != "" && s.Moved == sb.Root && s.Scope == sb.Scope
}

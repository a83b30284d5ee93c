// Package abuse has what an untrusted agent may try in a sandbox. Each probe
// is a few lines of shell; the program beside this package runs all of them,
// and does for them what a shell cannot.
package abuse

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"strings"
)

//go:embed probes/*.sh
var files embed.FS

// Outcome is how a probe ended.
type Outcome string

// The outcomes. What comes after one of them is the reason.
const (
	Held    Outcome = "held"
	Broke   Outcome = "broke"
	Skipped Outcome = "skipped" // it could not be tried
	// Planted means that the effect shows only in a later command.
	Planted Outcome = "planted"
)

// Probe is one attempt.
type Probe struct {
	Name     string
	Category string
	// Plain is the outcome in an ordinary container with the engine's defaults,
	// or "" where engines differ.
	Plain  Outcome
	Script string
}

// header introduces a probe: "#: NAME OUTCOME", and what it means.
var header = regexp.MustCompile(`^#: ([a-z0-9-]+) (held|broke|skipped|differs)$`)

// Probes returns all of them.
func Probes() ([]Probe, error) {
	entries, err := files.ReadDir("probes")
	if err != nil {
		return nil, err
	}
	var all []Probe
	for _, e := range entries {
		content, err := files.ReadFile(path.Join("probes", e.Name()))
		if err != nil {
			return nil, err
		}
		some, err := parse(strings.TrimSuffix(e.Name(), ".sh"), string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		all = append(all, some...)
	}
	return all, nil
}

func parse(category, content string) ([]Probe, error) {
	var all []Probe
	for line := range strings.Lines(content) {
		if !strings.HasPrefix(line, "#:") {
			if len(all) > 0 {
				all[len(all)-1].Script += line
			}
			continue
		}
		m := header.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return nil, fmt.Errorf("%q is not a probe's first line", line)
		}
		p := Probe{Name: m[1], Category: category, Plain: Outcome(m[2])}
		if p.Plain == "differs" {
			p.Plain = ""
		}
		all = append(all, p)
	}
	return all, nil
}

// Result is a line of the program's report.
type Result struct {
	Probe   string
	Outcome Outcome
	Why     string
}

// String returns the line.
func (r Result) String() string {
	return r.Probe + "\t" + string(r.Outcome) + "\t" + r.Why
}

// ParseResults reads a report.
func ParseResults(report string) (map[string]Result, error) {
	all := map[string]Result{}
	for line := range strings.Lines(report) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q is not a line of a report", line)
		}
		if _, twice := all[fields[0]]; twice {
			return nil, fmt.Errorf("there are two results of %q", fields[0])
		}
		all[fields[0]] = Result{Probe: fields[0], Outcome: Outcome(fields[1]), Why: fields[2]}
	}
	return all, nil
}

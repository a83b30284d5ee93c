package hostgit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Setting is one value of git's configuration, and the file that it is from, as git
// prints that.
type Setting struct{ Section, Sub, Name, Value, file string }

// Config is git's effective configuration.
type Config []Setting

// Config reads git's configuration, including that of the system and included
// files; nothing in it is run.
func (g Git) Config(ctx context.Context) (Config, error) {
	out, err := g.With("GIT_CONFIG_NOSYSTEM=0").Output(ctx, nil, "config", "--null", "--show-origin", "--list", "--includes")
	if err != nil {
		return nil, fmt.Errorf("reading git's configuration: %w", err)
	}
	var all Config
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		file, isFile := strings.CutPrefix(fields[i], "file:")
		if !isFile {
			continue // of this process's arguments
		}
		key, value, has := strings.Cut(fields[i+1], "\n")
		if !has {
			value = "true"
		}
		section, rest, _ := strings.Cut(key, ".")
		s := Setting{Section: section, Name: rest, Value: value, file: file}
		if i := strings.LastIndex(rest, "."); i >= 0 {
			s.Sub, s.Name = rest[:i], rest[i+1:]
		}
		all = append(all, s)
	}
	return all, nil
}

// Last returns the effective value of a setting without a subsection.
func (c Config) Last(section, name string) string {
	for _, s := range slices.Backward(c) {
		if s.Section == section && s.Sub == "" && s.Name == name {
			return s.Value
		}
	}
	return ""
}

// Has reports whether a setting of a section is in any subsection.
func (c Config) Has(section, name string) bool {
	return slices.ContainsFunc(c, func(s Setting) bool { return s.Section == section && s.Name == name })
}

// filterName are the names of filters that can be in a pathspec.
var filterName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// filters returns the names of the filters that change files on commit.
func (c Config) filters() []string {
	var names []string
	for _, s := range c {
		if s.Section == "filter" && (s.Name == "clean" || s.Name == "process") && s.Value != "" && filterName().MatchString(s.Sub) && !slices.Contains(names, s.Sub) {
			names = append(names, s.Sub)
		}
	}
	return names
}

// WithoutFilters switches the user's filters off.
func (g Git) WithoutFilters(c Config) Git {
	var entries []string
	n := 0
	for _, s := range c {
		if s.Section == "filter" {
			value := ""
			if s.Name == "required" {
				value = "false"
			}
			entries = append(entries, fmt.Sprintf("GIT_CONFIG_KEY_%d=filter.%s.%s", n, s.Sub, s.Name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
			n++
		}
	}
	return g.With(append(entries, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))...)
}

// Filtered returns the files that the user's filters (git-lfs, git-crypt) change on
// commit. If git cannot read the attributes in the working tree, those of the index
// are used.
func (g Git) Filtered(ctx context.Context, c Config) (paths []string, err error) {
	blocked := false
	g = g.With("GIT_LITERAL_PATHSPECS=0")
	for _, name := range c.filters() {
		args := []string{"ls-files", "-z", "--", ":(attr:filter=" + name + ")"}
		var out []byte
		if !blocked {
			out, err = g.InWorktree(ctx, args...)
			blocked = errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		}
		if blocked {
			out, err = g.Output(ctx, nil, args...)
		}
		if err != nil {
			return nil, fmt.Errorf("listing files of the filter %q: %w", name, err)
		}
		paths = append(paths, splitNull(out)...)
	}
	return paths, nil
}

// splitNull splits output of git -z.
func splitNull(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

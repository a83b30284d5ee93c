package hostgit

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// The user's variables that keep the system's configuration and attributes out.
const (
	noSystem           = "GIT_CONFIG_NOSYSTEM"
	noSystemAttributes = "GIT_ATTR_NOSYSTEM"
)

// Config returns git's configuration, including included files and, unless the user keeps it out, that of the
// system: the known one, or else it is read.
func (g Git) Config(ctx context.Context) (gitrepo.Config, error) {
	if g.Known != nil {
		return g.Known, nil
	}
	return g.With(noSystem + "=" + cmp.Or(os.Getenv(noSystem), "0")).ReadConfig(ctx)
}

// Reload returns a Git for which the configuration is read again.
func (g Git) Reload(ctx context.Context) (_ Git, err error) {
	g.Known = nil
	g.Known, err = g.Config(ctx)
	return g.configured(), err
}

// Filters returns the names of the filters that change files on commit.
func Filters(c gitrepo.Config) []string {
	var names []string
	for _, s := range c {
		if s.Section == "filter" && (s.Name == "clean" || s.Name == "process") && s.Value != "" && !slices.Contains(names, s.Sub) {
			names = append(names, s.Sub)
		}
	}
	return names
}

// splitNull splits output of git -z.
func splitNull(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// GlobalExcludes is the path of the user's list of ignored files for all repositories.
func GlobalExcludes(config gitrepo.Config) string {
	return globalFile(config, "excludesfile", "ignore")
}

// globalAttributes is the path of the user's attributes for all repositories.
func globalAttributes(config gitrepo.Config) string {
	return globalFile(config, "attributesfile", "attributes")
}

// globalFile is the path of a file that a setting of core names, or else the name.
func globalFile(config gitrepo.Config, setting, name string) string {
	home, _ := os.UserHomeDir()
	if path := config.Last("core", setting); path != "" {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(home, rest)
		}
		return path
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "git", name)
	}
	return filepath.Join(home, ".config", "git", name)
}

package gitrepo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Setting is one value of git's configuration.
type Setting struct {
	Section, Sub, Name, Value string
	// File is where it is from; empty for the environment and the command line.
	File string
}

// Config is git's effective configuration, which may contain passwords.
type Config []Setting

// configArgs lists the configuration, including included files. Nothing in it is run.
func configArgs() []string {
	return []string{"config", "--null", "--show-origin", "--list", "--includes"}
}

// ReadConfig reads the configuration from its files, not from the environment.
func (g Git) ReadConfig(ctx context.Context) (Config, error) {
	out, err := g.Run(ctx, configArgs()...)
	if err != nil {
		return nil, fmt.Errorf("reading git's configuration: %w", err)
	}
	return parseConfig(out).in(g.Dir).FromFiles(), nil
}

// parseConfig reads the output for configArgs.
func parseConfig(out string) (c Config) {
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		file, isFile := strings.CutPrefix(fields[i], "file:")
		if !isFile {
			file = ""
		}
		key, value, has := strings.Cut(fields[i+1], "\n")
		if !has {
			value = "true"
		}
		section, rest, _ := strings.Cut(key, ".")
		s := Setting{Section: section, Name: rest, Value: value, File: file}
		if i := strings.LastIndex(rest, "."); i >= 0 {
			s.Sub, s.Name = rest[:i], rest[i+1:]
		}
		c = append(c, s)
	}
	return c
}

// in resolves relative paths of files.
func (c Config) in(dir string) Config {
	for i, s := range c {
		if s.File != "" && !filepath.IsAbs(s.File) {
			c[i].File = filepath.Join(dir, s.File)
		}
	}
	return c
}

// FromFiles returns the settings that are neither from the environment nor from the command
// line.
func (c Config) FromFiles() Config {
	return slices.DeleteFunc(slices.Clone(c), func(s Setting) bool { return s.File == "" })
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

// SigningKey returns gpg.format and user.signingKey, with ~/ resolved; empty if unset.
func (c Config) SigningKey() (format, key string) {
	key = c.Last("user", "signingkey")
	if rest, found := strings.CutPrefix(key, "~/"); found {
		if home, err := os.UserHomeDir(); err == nil {
			key = filepath.Join(home, rest)
		}
	}
	return c.Last("gpg", "format"), key
}

// plainOrigin returns the URL of the remote "origin" if git does not rewrite it; empty if
// unknown.
func (c Config) plainOrigin() string {
	origin, n := "", 0
	for _, s := range c {
		if s.Section == "remote" && s.Sub == "origin" && s.Name == "url" {
			origin, n = s.Value, n+1
		}
	}
	if n != 1 || c.Has("url", "insteadof") {
		return ""
	}
	return origin
}

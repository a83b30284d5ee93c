package projectimage

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Package is a package in a dependencies file.
type Package struct {
	Name string // NAME[:ARCHITECTURE][=VERSION], as apt-get takes it
	Line int    // the first one, from 1
}

// The parts of a package's name by Debian's policy (5.6.1, 5.6.12), without what apt-get or
// a shell would interpret: a trailing dash means removal, and bash expands a tilde after an
// equals sign or a colon.
var (
	packageName    = lazyregexp.New(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+.]$`)
	packageArch    = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	packageVersion = lazyregexp.New(`^([0-9]+:)?[0-9]([A-Za-z0-9.+~-]*[A-Za-z0-9.+~])?$`)
)

// maxProblems is how many errors of one file are reported.
const maxProblems = 20

// parseDependencies returns the packages of a dependencies file without duplicates: one per
// line, with comments from "#" on. Errors are joined [FileError]s.
func parseDependencies(path string, text []byte) ([]Package, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, &FileError{Path: path, Line: 1, Column: 1, Message: "the file is in UTF-16: save it as UTF-8"}
	}
	var packages []Package
	var problems []error
	seen := map[string]bool{}
	number, size := 0, 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		name, from, err := parsePackage(line)
		switch {
		case err != nil && len(problems) == maxProblems:
			return nil, errors.Join(append(problems, errors.New("and more errors"))...)
		case err != nil:
			problems = append(problems, newFileError(path, number, line, from, from+len(name), err.Error()))
		case name != "" && !seen[name]:
			seen[name] = true
			packages = append(packages, Package{Name: name, Line: number})
			size += len(name) + 1
		}
	}
	if size > maxNames {
		return nil, refuse(path, fmt.Sprintf("more than %d bytes of package names: install them in %s", maxNames, sandboxDockerfile))
	}
	return packages, errors.Join(problems...)
}

// parsePackage returns the package on a line, "" for none, and its offset. With an error, it
// is the invalid part of the line.
func parsePackage(line string) (name string, from int, _ error) {
	for i, r := range line {
		if unicode.IsControl(r) && r != '\t' {
			return line[i : i+utf8.RuneLen(r)], i, fmt.Errorf("invalid control character %U", r)
		}
	}
	name, _, _ = strings.Cut(line, "#")
	from = len(name) - len(strings.TrimLeftFunc(name, unicode.IsSpace))
	name = strings.TrimSpace(name)
	if name == "" {
		return "", 0, nil
	}
	if space := strings.IndexFunc(name, unicode.IsSpace); space >= 0 {
		rest := strings.TrimLeftFunc(name[space:], unicode.IsSpace)
		return rest, from + len(name) - len(rest), errors.New("only one package is allowed per line")
	}
	return name, from, checkPackage(name)
}

// checkPackage validates NAME[:ARCHITECTURE][=VERSION].
func checkPackage(full string) error {
	rest, version, pinned := strings.Cut(full, "=")
	name, arch, foreign := strings.Cut(rest, ":")
	switch {
	case strings.HasSuffix(full, "-"):
		return errors.New("a trailing dash makes apt-get remove the package")
	case !packageName().MatchString(name):
		return fmt.Errorf("invalid package name %q: use lower-case letters, digits, +, - and ., at least two characters, "+
			"starting with a letter or digit", shorten(name, maxName))
	case foreign && !packageArch().MatchString(arch):
		return fmt.Errorf("invalid architecture %q: use one such as amd64 or arm64", shorten(arch, maxName))
	case pinned && !packageVersion().MatchString(version):
		return fmt.Errorf("invalid version %q: use an optional epoch such as 1:, a digit, and letters, digits, ., +, ~ and -",
			shorten(version, maxName))
	default:
		return nil
	}
}

// maxNames bounds the package names of a file, in bytes: BuildKit accepts lines of 65535.
const maxNames = 60_000

// generateDockerfile returns the Dockerfile that installs the packages.
func generateDockerfile(packages []Package) []byte {
	var names []string
	for _, p := range packages {
		names = append(names, p.Name)
	}
	return []byte("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nRUN apt-get update && apt-get install -y --no-install-recommends \\\n" +
		strings.Join(names, " ") + " \\\n&& rm -rf /var/lib/apt/lists/*\nUSER agent\n")
}

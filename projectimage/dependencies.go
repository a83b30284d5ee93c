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

// Package is one package that a project asks for.
type Package struct {
	Name string // NAME[:ARCHITECTURE][=VERSION], as apt-get takes it
	Line int    // where it is asked for first, from 1
}

// The parts of a package's name, as Debian's policy has them (5.6.1, 5.6.12),
// without what apt-get or a shell would read as something else: a name or
// version that ends in a dash means removal, and bash expands a tilde that
// follows an equals sign or a colon.
var (
	packageName    = lazyregexp.New(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+.]$`)
	packageArch    = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	packageVersion = lazyregexp.New(`^([0-9]+:)?[0-9]([A-Za-z0-9.+~-]*[A-Za-z0-9.+~])?$`)
)

// maxProblems is how many mistakes in one file are shown at once.
const maxProblems = 20

// parseDependencies returns the packages that the text of a dependencies file
// asks for: one on each line, each once. Comments begin with "#" anywhere in a
// line. Errors are [FileError], joined when there are several.
func parseDependencies(path string, text []byte) ([]Package, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, &FileError{Path: path, Line: 1, Column: 1, Message: "the file is in UTF-16: save it as UTF-8"}
	}
	var packages []Package
	var problems []error
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		name, from, err := parsePackage(line)
		switch {
		case err != nil && len(problems) == maxProblems:
			return nil, errors.Join(append(problems, errors.New("and more mistakes"))...)
		case err != nil:
			problems = append(problems, newFileError(path, number, line, from, from+len(name), err.Error()))
		case name != "" && !seen[name]:
			seen[name] = true
			packages = append(packages, Package{Name: name, Line: number})
		}
	}
	return packages, errors.Join(problems...)
}

// parsePackage returns the package on a line, "" for none, and where in the
// line it begins. With an error it is the part of the line that is wrong.
func parsePackage(line string) (name string, from int, _ error) {
	for i, r := range line {
		if unicode.IsControl(r) && r != '\t' {
			return line[i : i+utf8.RuneLen(r)], i, fmt.Errorf("the control character %U does not belong in a list of packages", r)
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
		return rest, from + len(name) - len(rest), errors.New("only one package may stand on a line")
	}
	return name, from, checkPackage(name)
}

// checkPackage tells what is wrong with NAME[:ARCHITECTURE][=VERSION].
func checkPackage(full string) error {
	rest, version, pinned := strings.Cut(full, "=")
	name, arch, foreign := strings.Cut(rest, ":")
	switch {
	case strings.HasSuffix(full, "-"):
		return errors.New("a dash at the end tells apt-get to remove the package: take it off")
	case !packageName().MatchString(name):
		return fmt.Errorf("%q is not the name of a Debian package: those have lower-case letters, digits, plus, dash and full stop, "+
			"two characters at least, a letter or digit first", shorten(name, nameMax))
	case foreign && !packageArch().MatchString(arch):
		return fmt.Errorf("%q is not an architecture such as amd64 or arm64", shorten(arch, nameMax))
	case pinned && !packageVersion().MatchString(version):
		return fmt.Errorf("%q is not the version of a Debian package: those may begin with an epoch such as 1:, then have a digit first, "+
			"and letters, digits, full stop, plus, tilde and dash", shorten(version, nameMax))
	default:
		return nil
	}
}

// maxLine is the length of the longest list of packages on one line of a
// generated Dockerfile, in bytes: BuildKit takes 65535 for the line, and Linux
// 131072 for the argument that it becomes.
const maxLine = 60_000

// generateDockerfile returns the Dockerfile of a layer with the packages. Lists
// that no line can take are spread over several steps.
func generateDockerfile(packages []Package) []byte {
	var text bytes.Buffer
	text.WriteString("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\n")
	for rest := packages; len(rest) > 0; {
		names := rest[0].Name
		count := 1
		for count < len(rest) && len(names)+1+len(rest[count].Name) <= maxLine {
			names += " " + rest[count].Name
			count++
		}
		rest = rest[count:]
		text.WriteString("RUN apt-get update && apt-get install -y --no-install-recommends \\\n" +
			names + " \\\n&& rm -rf /var/lib/apt/lists/*\n")
	}
	text.WriteString("USER agent\n")
	return text.Bytes()
}

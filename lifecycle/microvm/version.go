package microvm

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// Version is the version of a program, as far as behaviour depends on it.
type Version struct{ Major, Minor, Patch int }

var versionForm = regexp.MustCompile(`(\d{1,6})\.(\d{1,6})\.(\d{1,6})`)

// ParseVersion finds the first version in what the program's "version" prints.
// Its form has changed several times.
func ParseVersion(output []byte) (Version, error) {
	found := versionForm.FindSubmatch(output)
	if found == nil {
		return Version{}, fmt.Errorf("there is no version in %.80q", output)
	}
	var n [3]int
	for i, digits := range found[1:] {
		var err error
		if n[i], err = strconv.Atoi(string(digits)); err != nil {
			return Version{}, fmt.Errorf("reading the version: %w", err)
		}
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Less tells whether v is older than w.
func (v Version) Less(w Version) bool {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)) < 0
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

package host

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Gone reports whether nothing is at a path.
func Gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// ephemeralSuffix is the length of what makes such a name its own, with a dash.
const ephemeralSuffix = 9

// EphemeralName returns a unique name for a sandbox for one command.
func EphemeralName(name string) string {
	return ephemeralBase(name) + "-" + strings.ToLower(rand.Text()[:ephemeralSuffix-1])
}

func ephemeralBase(name string) string {
	if limit := 63 - ephemeralSuffix; len(name) > limit {
		name = strings.TrimRight(name[:limit], "-")
	}
	return name
}

// isEphemeralOf says whether a name can be that of a sandbox for one dispatch,
// where the scope's own sandbox has the name of.
func isEphemeralOf(name, of string) bool {
	suffix, ok := strings.CutPrefix(name, ephemeralBase(of)+"-")
	return ok && len(suffix) == ephemeralSuffix-1 && !strings.Contains(suffix, "-")
}

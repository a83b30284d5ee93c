package host

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Missing reports whether there is nothing at a path.
func Missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// ephemeralSuffix is the length of the unique suffix of ephemeral sandboxes.
const ephemeralSuffix = 9

// EphemeralName returns a unique name for an ephemeral sandbox.
func EphemeralName(name string) string {
	return ephemeralBase(name) + "-" + strings.ToLower(rand.Text()[:ephemeralSuffix-1])
}

func ephemeralBase(name string) string {
	if limit := 63 - ephemeralSuffix; len(name) > limit {
		name = strings.TrimRight(name[:limit], "-")
	}
	return name
}

// isEphemeralOf reports whether a name can be that of an ephemeral sandbox of a scope, whose own
// sandbox has the name of.
func isEphemeralOf(name, of string) bool {
	suffix, ok := strings.CutPrefix(name, ephemeralBase(of)+"-")
	return ok && len(suffix) == ephemeralSuffix-1 && !strings.Contains(suffix, "-")
}

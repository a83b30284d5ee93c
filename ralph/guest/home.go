package guest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/docker-ralph/docker-ralph/hint"
)

// homeDir returns the user's home directory, even if HOME is not set.
func homeDir() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return "", hint.Wrap(fmt.Errorf("finding the home directory: %w", err), "set HOME")
	}
	return u.HomeDir, nil
}

package guest

import (
	"os"

	"github.com/docker-ralph/docker-ralph/wire"
)

// EnterSubdir enters the subdirectory in which the user has run the command. A clone lacks those
// without committed files: the command runs in its root then.
func EnterSubdir() {
	if dir := os.Getenv(wire.SubdirEnv); dir != "" {
		_ = os.Chdir(dir)
	}
	_ = os.Unsetenv(wire.SubdirEnv) // commands of an agent stay where they are
}

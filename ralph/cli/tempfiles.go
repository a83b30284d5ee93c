package cli

import (
	"fmt"
	"strings"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/ralph/tempfiles"
	"github.com/docker-ralph/docker-ralph/wire"
)

// tempDirs are directories of temporary files, by the key of their size in the
// configuration.
var tempDirs = []struct{ dir, key, env string }{
	{"/tmp", "tmp", "RALPH_TMP"},
	{"/dev/shm", "shm", "RALPH_SHM"},
}

// inContainer reports whether this is a container of docker ralph.
func inContainer() bool { return isDir(wire.MountPoint) }

// tempFiles records the temporary files; clean removes those made since. The session's own
// stay, and so does a worktree below /tmp.
func (s *agentEnv) tempFiles() (clean func() error) {
	var dirs []string
	for _, temp := range tempDirs {
		dirs = append(dirs, temp.dir)
	}
	return tempfiles.Take(dirs, []string{s.temp, s.top}).RemoveNew
}

// sizedTemp reports whether a directory is in a file system of temporary files, which has
// a size of its own in a container.
func sizedTemp(path string) bool {
	if !inContainer() {
		return false
	}
	for _, temp := range tempDirs {
		if (path == temp.dir || strings.HasPrefix(path, temp.dir+"/")) && sysinfo.SameDisk(path, temp.dir) && !sysinfo.SameDisk(temp.dir, "/") {
			return true
		}
	}
	return false
}

// fullTemp returns a full directory of temporary files in a container and the remedy.
func fullTemp() (reason, remedy string) {
	for _, temp := range tempDirs {
		if sizedTemp(temp.dir) && sysinfo.FullDisk(temp.dir) != "" {
			return fmt.Sprintf("%s is full (%s)", temp.dir, units.BytesSize(float64(sysinfo.DiskSize(temp.dir)))),
				fmt.Sprintf(`raise the limit with %s and --recreate, or with %s under [sandbox.resources]; "docker ralph stop" empties it`, temp.env, temp.key)
		}
	}
	return "", ""
}

package guest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// runOwn changes the owner of a home directory and its content: UID GID HOME. It runs
// in a separate container that has the capability.
func runOwn(args []string) error {
	uid, gid, home, err := userArgs(args)
	if err != nil {
		return err
	}
	return ownHome(home, uid, gid)
}

func userArgs(args []string) (uid, gid int, home string, err error) {
	if len(args) != 3 || !filepath.IsAbs(args[2]) {
		return 0, 0, "", errUsage
	}
	uid, errU := strconv.Atoi(args[0])
	gid, errG := strconv.Atoi(args[1])
	if errU != nil || errG != nil || uid < 0 || gid < 0 {
		return 0, 0, "", errUsage
	}
	return uid, gid, args[2], nil
}

// ownHome changes the directory itself last: its owner marks completion.
func ownHome(home string, uid, gid int) error {
	err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == home {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	if err == nil {
		err = os.Lchown(home, uid, gid)
	}
	if err != nil {
		return fmt.Errorf("changing the owner of the home directory to %d: %w", uid, err)
	}
	return nil
}

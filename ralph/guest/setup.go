package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// runSetup makes a new sandbox fit for the user that the agent will run as.
// It runs once, as root with all capabilities, before anything of the agent
// has run.
func runSetup(args []string) error {
	flags := flag.NewFlagSet("_setup", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	uid := flags.Int("uid", -1, "")
	gid := flags.Int("gid", -1, "")
	home := flags.String("home", "", "")
	probe := flags.String("probe", "", "")
	digest := flags.String("digest", "", "")
	if err := flags.Parse(args); err != nil || *uid < 0 || *gid < 0 || *home == "" {
		return errUsage
	}
	if err := checkProbe(*probe, *digest); err != nil {
		return err
	}
	if err := ownHome(*home, *uid, *gid); err != nil {
		return err
	}
	return nameUser("/etc", *uid, *gid, *home)
}

// checkProbe compares a file of the work tree with what the host sees under
// the same path. They differ when the engine runs on another machine that
// happens to have such a directory too.
func checkProbe(path, digest string) error {
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the work tree is not visible in the sandbox: %w", err)
	}
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != digest {
		return fmt.Errorf("%s is not the same file in the sandbox as on this machine", path)
	}
	return nil
}

// ownHome gives the home directory and what the image put into it to the
// user. The directory itself comes last: when it is the user's, all is done.
func ownHome(home string, uid, gid int) error {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return fmt.Errorf("making the home directory: %w", err)
	}
	if owns(home, uid, gid) {
		return nil
	}
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
		return fmt.Errorf("giving the home directory to user %d: %w", uid, err)
	}
	return nil
}

// nameUser makes sure that the user and the group have a name: git, ssh, npm
// and others do not work for a number without one. The image's own agent
// user is renumbered; an image without one gets a new entry.
func nameUser(etc string, uid, gid int, home string) error {
	passwd := filepath.Join(etc, "passwd")
	entry := fmt.Sprintf("agent:x:%d:%d::%s:/bin/sh", uid, gid, home)
	if err := setEntry(passwd, uid, entry); err != nil {
		return err
	}
	return setEntry(filepath.Join(etc, "group"), gid, fmt.Sprintf("agent:x:%d:", gid))
}

// setEntry puts entry into a file in the format of passwd(5), unless the id
// has an entry already. An entry of the same name is replaced.
func setEntry(path string, id int, entry string) error {
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	name, _, _ := strings.Cut(entry, ":")
	var lines []string
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Split(line, ":")
		if len(fields) > 2 && fields[2] == strconv.Itoa(id) {
			return nil
		}
		if fields[0] != name {
			lines = append(lines, line)
		}
	}
	lines = append(lines, entry)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

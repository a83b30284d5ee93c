package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// What runCheck prints, a line each, when something is missing that it has no
// right to mend.
const (
	NeedsName = "name" // the user has no name: run _name
	NeedsHome = "home" // the home directory is somebody else's: run _own
)

// runCheck looks, as the user that the agent will run as, whether a sandbox
// is fit for it. It prints what is missing. A work tree that is not the
// host's is an error.
func runCheck(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("_check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	home := flags.String("home", "", "")
	probe := flags.String("probe", "", "")
	digest := flags.String("digest", "", "")
	if err := flags.Parse(args); err != nil || *home == "" {
		return errUsage
	}
	if err := checkProbe(*probe, *digest); err != nil {
		return err
	}
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil {
		_, _ = fmt.Fprintln(out, NeedsName)
	}
	if !owns(*home, os.Getuid(), os.Getgid()) {
		_, _ = fmt.Fprintln(out, NeedsHome)
	}
	return nil
}

// runName gives the user a name. Root may write there also without
// capabilities.
func runName(args []string) error {
	uid, gid, home, err := userArgs(args)
	if err != nil {
		return err
	}
	return nameUser("/etc", uid, gid, home)
}

// runOwn gives a home directory to the user. It takes the capability to do
// so, and runs in a container of its own that has it.
func runOwn(args []string) error {
	uid, gid, home, err := userArgs(args)
	if err != nil {
		return err
	}
	return ownHome(home, uid, gid)
}

// userArgs reads UID GID HOME.
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

package guest

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The oldest sqlite3 that the original ralph works with: it needs RETURNING.
const (
	sqliteMajor = 3
	sqliteMinor = 35
)

// requirePrograms makes sure of what the original ralph needs beside itself.
func (s system) requirePrograms() error {
	var missing []string
	for _, name := range []string{"jq", "sqlite3"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		if err := s.installPackages(missing); err != nil {
			return err
		}
	}
	said, err := s.run(false, "sqlite3", "--version")
	if err != nil {
		return fmt.Errorf("asking sqlite3 for its version: %w", err)
	}
	major, minor, err := parseSQLiteVersion(said)
	if err != nil {
		return err
	}
	if major < sqliteMajor || major == sqliteMajor && minor < sqliteMinor {
		return fmt.Errorf("sqlite3 is %s, and ralph needs %d.%d or newer. Use an image that has a newer one",
			strings.Fields(said)[0], sqliteMajor, sqliteMinor)
	}
	return nil
}

var sqliteVersion = regexp.MustCompile(`^\s*(\d{1,6})\.(\d{1,6})(\.|\s|$)`)

func parseSQLiteVersion(said string) (major, minor int, err error) {
	m := sqliteVersion.FindStringSubmatch(said)
	if m == nil {
		return 0, 0, fmt.Errorf("sqlite3 does not say its version, but %q", strings.TrimSpace(said))
	}
	major, errMajor := strconv.Atoi(m[1])
	minor, errMinor := strconv.Atoi(m[2])
	return major, minor, errors.Join(errMajor, errMinor)
}

func (s system) installPackages(names []string) error {
	list := strings.Join(names, " and ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("the sandbox lacks %s, and there is no apt-get to install it with. Use an image that has %s", list, list)
	}
	// The lists may be there, so what counts is whether installing works.
	errUpdate := s.apt("update")
	install := append([]string{"install", "-y", "--no-install-recommends"}, names...)
	err := s.apt(install...)
	if err != nil && errUpdate == nil && !errors.Is(err, errNoSudo) {
		// One that was killed may have left packages half installed.
		if _, errRepair := s.run(true, "env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "-a"); errRepair == nil {
			err = s.apt(install...)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoSudo):
		return fmt.Errorf("the sandbox lacks %s: %w, or one that has %s", list, errNoSudo, list)
	case errUpdate != nil:
		err = errUpdate // without which the other cannot work
	}
	return fmt.Errorf("the sandbox lacks %s, and installing failed. Check its network policy, or use an image that has %s. %w", list, list, err)
}

// apt runs apt-get, and waits for another one: that of a killed bootstrap goes
// on by itself.
func (s system) apt(args ...string) error {
	const patience = 120 // seconds
	command := append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=60"}, args...)
	for waited := 0; ; waited++ {
		said, err := s.run(true, command...)
		if err == nil || waited >= patience || !strings.Contains(said, "Could not get lock") {
			return err
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(second()):
		}
	}
}

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"

	"github.com/moby/sys/atomicwriter"
)

const recordRetention = 7 * 24 * time.Hour

// record describes a dispatch. It is written before the command starts, so that the
// host can look up the dispatch after it lost the connection.
type record struct {
	ID      string    `json:"id"`
	Command []string  `json:"command"`
	Since   time.Time `json:"since"`
	// PID, start time and boot ID together identify the process.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// validID reports whether id can be a file name and nothing else.
func validID(id string) bool {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return id != "" && len(id) <= 64 && strings.Trim(id, letters) == ""
}

func recordsDir(home string) string { return filepath.Join(home, ".ralph", "dispatches") }

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

// write records the calling process as the dispatch's.
func (r record) write(home string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("recording dispatch %s: %w", r.ID, err)
		}
	}()
	r.PID, r.Boot = os.Getpid(), bootID(procDir)
	stat := sysinfo.Stat(procDir, r.PID)
	if stat == nil {
		return errors.New("the process has no stat in /proc")
	}
	if r.Start, err = strconv.ParseUint(stat[sysinfo.StatStart], 10, 64); err != nil {
		return err
	}
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	dir := recordsDir(home)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicwriter.WriteFile(filepath.Join(dir, r.ID), append(content, '\n'), 0o600)
}

func parseRecord(id string, content []byte) (record, error) {
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return record{}, err
	}
	if r.ID != id || !validID(id) {
		return record{}, errors.New("record of another dispatch")
	}
	return r, nil
}

// readRecords returns the records of all dispatches, in no order, skipping invalid
// files.
func readRecords(home string) ([]record, error) {
	dir := recordsDir(home)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading dispatch records: %w", err)
	}
	var all []record
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // pruned
		}
		if r, err := parseRecord(e.Name(), content); err == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// knownRecords returns the readable records: a container sandbox has none, and may
// have no home directory.
func knownRecords() []record {
	home, err := homeDir()
	if err != nil {
		return nil
	}
	records, _ := readRecords(home)
	return records
}

// pruneRecords removes files older than [recordRetention] without a running dispatch,
// including temporary files of killed writers. Errors are left to the next run.
func pruneRecords(home string, now time.Time) {
	dir := recordsDir(home)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var old []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > recordRetention {
			old = append(old, e.Name())
		}
	}
	if len(old) == 0 {
		return
	}
	records, err := readRecords(home)
	if err != nil {
		return
	}
	all, err := dispatchProcesses(procDir, records)
	if err != nil {
		return
	}
	running := map[string]bool{}
	for _, p := range all {
		running[p.dispatch] = true
	}
	for _, name := range old {
		if !running[name] {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

package sandboxcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/atomicwriter"
)

// DirEnv names the variable with the fake's state directory.
const DirEnv = "SANDBOX_DOUBLE_DIR"

// Where a sandbox's commands run.
const (
	ModeProcess   = "process"   // on the host, as the user that calls
	ModeContainer = "container" // in a container for each sandbox
)

// Settings configure the fake. They are read at every call, so that tests can change them.
// Start with [Defaults]: the zero value is logged out and down.
type Settings struct {
	// Version is the version of sbx. The plugin is always v0.13.0.
	Version string `json:"version"`
	// Mode is ModeProcess or ModeContainer.
	Mode string `json:"mode"`
	// Engine is the address of the Docker Engine for container mode.
	Engine string `json:"engine,omitempty"`
	// Template is the image that replaces every docker/sandbox-templates:*
	// in container mode.
	Template string `json:"template,omitempty"`
	// Disk is a directory of each sandbox that is a volume in container mode, unless it is a
	// workspace, so that tests can read it.
	Disk string `json:"disk,omitempty"`

	LoggedIn          bool `json:"logged_in"`
	PolicyInitialised bool `json:"policy_initialised"`
	DaemonUp          bool `json:"daemon_up"`
	// EngineUp is false if the daemon has lost its engine: lists are empty
	// and commands fail until "sbx daemon restart".
	EngineUp bool `json:"engine_up"`

	// Governed is an organization whose policy replaces the user's rules that allow
	// something.
	Governed bool `json:"governed,omitempty"`

	// Idle is how long an unused sandbox keeps running: 30 s for sbx
	// and 30 min for the plugin when it is zero.
	Idle Duration `json:"idle,omitempty"`

	Faults Faults `json:"faults"`
}

// Faults are failures, each known from the real CLIs.
type Faults struct {
	// EmptyList makes lists empty and commands fail, as a lost engine does.
	EmptyList bool `json:"empty_list,omitempty"`
	// UpdateNotice puts a banner after JSON on stdout.
	UpdateNotice bool `json:"update_notice,omitempty"`
	// StartLinesStdout prints the lines of a starting daemon to stdout, as on Windows, if
	// DaemonUp is false.
	StartLinesStdout bool `json:"start_lines_stdout,omitempty"`
	// HangExec makes exec never return. Nothing is run.
	HangExec bool `json:"hang_exec,omitempty"`
	// HangList makes ls never return.
	HangList bool `json:"hang_list,omitempty"`
	// IgnoreSIGTERM is how long a client continues after a SIGTERM.
	IgnoreSIGTERM Duration `json:"ignore_sigterm,omitempty"`
	// LoginLapseAfter is how many calls are served before the login lapses.
	LoginLapseAfter *int `json:"login_lapse_after,omitempty"`
	// NoID and NoWorkspaces leave fields out of lists; ExtraFields adds some.
	NoID         bool `json:"no_id,omitempty"`
	NoWorkspaces bool `json:"no_workspaces,omitempty"`
	ExtraFields  bool `json:"extra_fields,omitempty"`
	// VanishOnSleep removes all running sandboxes once, as if the host had
	// slept just now.
	VanishOnSleep bool `json:"vanish_on_sleep,omitempty"`
	// KVM makes create fail as without hardware virtualization.
	KVM bool `json:"kvm,omitempty"`
	// Removed is the plugin of Docker Desktop 4.80: a notice for every verb,
	// with the exit code RemovedExit, on stderr if RemovedStderr is set.
	Removed       bool `json:"removed,omitempty"`
	RemovedExit   int  `json:"removed_exit,omitempty"`
	RemovedStderr bool `json:"removed_stderr,omitempty"`
	// Legacy is the container-based plugin of Docker Desktop 4.50.
	Legacy bool `json:"legacy,omitempty"`
	// TruncatedList cuts JSON lists in half, GarbageList has no JSON at all.
	TruncatedList bool `json:"truncated_list,omitempty"`
	GarbageList   bool `json:"garbage_list,omitempty"`
	// NoDaemon is a daemon that does not start.
	NoDaemon bool `json:"no_daemon,omitempty"`
	// NoRules is the error that a new network rule meets; none if it is empty.
	NoRules string `json:"no_rules,omitempty"`
	// NoLog is the error that reading the network log meets.
	NoLog string `json:"no_log,omitempty"`
	// CrashBeforeCreate and CrashAfterCreate kill the client of create before
	// it does anything, or after it has created the sandbox and printed nothing.
	CrashBeforeCreate bool `json:"crash_before_create,omitempty"`
	CrashAfterCreate  bool `json:"crash_after_create,omitempty"`
}

// Duration is a time.Duration that is written as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Defaults are the settings of a fake that works: a recent sbx in process
// mode, logged in and with a policy.
func Defaults() Settings {
	return Settings{
		Version: "0.53.0", Mode: ModeProcess,
		LoggedIn: true, PolicyInitialised: true, DaemonUp: true, EngineUp: true,
	}
}

func settingsPath(dir string) string { return filepath.Join(dir, "settings.json") }

// Load reads the settings of a state directory. [Defaults] are for missing ones.
func Load(dir string) (Settings, error) {
	s := Defaults()
	content, err := os.ReadFile(settingsPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading the fake's settings: %w", err)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("reading the fake's settings %s: %w", settingsPath(dir), err)
	}
	return s, nil
}

// Save writes the settings of a state directory at once.
func (s Settings) Save(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the fake's settings: %w", err)
	}
	if err := atomicwriter.WriteFile(settingsPath(dir), content, 0o644); err != nil {
		return fmt.Errorf("writing the fake's settings: %w", err)
	}
	return nil
}

// Update changes the settings of a state directory, locked against calls that change them
// too, such as login.
func Update(dir string, change func(*Settings)) error {
	unlock, err := lockFile(filepath.Join(dir, "settings.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	s, err := Load(dir)
	if err != nil {
		return err
	}
	change(&s)
	return s.Save(dir)
}

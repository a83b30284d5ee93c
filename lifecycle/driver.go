// Package lifecycle defines what a sandbox is, and what a driver does with it:
// look it up, create it, run commands in it, remove it. The drivers are in
// subdirectories.
package lifecycle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire"
)

// State is the state of a sandbox when a driver looked it up.
type State string

// The states of a sandbox. In all states but NotFound, its name is in use.
const (
	NotFound   State = "not found"
	Running    State = "running"
	Stopped    State = "stopped"
	Paused     State = "paused"
	Creating   State = "being created"
	Restarting State = "restarting"
	Dead       State = "dead"
	Removing   State = "removing"
	// Unknown means that the driver could not find out. It must never be
	// treated as NotFound.
	Unknown State = "unknown"
)

// Sandbox is an existing sandbox. Its properties are recorded with the sandbox
// itself. [Driver.List] leaves out ImageID, Resources, Rules, Run and Unused.
type Sandbox struct {
	Name  string
	ID    string // assigned by the driver; changes when the sandbox is recreated
	State State
	// Why describes the state Unknown, and what to do.
	Why string
	// Client is the ID of the client that created it; empty for a microVM, or if an earlier version did.
	Client string
	// OtherClient names that client if it is not this one, such as "una@laptop". Only [Driver.List] returns
	// such sandboxes, and no other method of a driver is called for them.
	OtherClient string

	Scope     gitrepo.Scope
	Root      string // root of the scope's worktree
	MainRoot  string // root of the repository's main worktree; empty if the driver does not record it
	Agent     string
	Image     string // image reference
	ImageID   string // digest of the image; empty for a microVM
	Settings  string // [Spec.Settings] when it was created; empty for one of an earlier version
	Resources Resources
	User      string // UID:GID that commands run as
	Ephemeral bool   // removed after one command
	Unused    bool   // no command has run in it: its creation has failed
	Private   bool   // works on a separate clone or git directory
	Clone     bool   // has a clone of the worktree instead of the worktree itself
	SignDir   string // host directory of the signing socket; empty for none
	Config    string // host directory of the user's agent settings; empty for none
	ConfigAt  string // path of that directory in the sandbox
	Cache     string // volume of the repository's caches; empty for none

	// Egress is the mode of the network policy that it was created with; empty for an
	// unrestricted network.
	Egress egress.Mode
	// Proxy is the address of its proxy; empty for none.
	Proxy string
	// Rules are the [Egress.Rules] that its proxy was started with; empty if unknown.
	Rules string
	// Run identifies the current run of its network and its proxy. Isolation has to be
	// verified again when it changes.
	Run string
}

// Spec describes the sandbox to create.
type Spec struct {
	Name      string
	Scope     gitrepo.Scope
	Root      string   // worktree, mounted writable at the same path
	Mounts    []string // further directories, mounted in the same way
	Probe     string   // file below the mounts that must be the same inside
	Moved     string   // previous root of the worktree, if it has moved
	MainRoot  string   // main worktree of the repository
	Agent     string
	Image     string // image reference; the image must exist when Create is called
	Resources Resources
	User      User
	Private   bool   // separate clone, or the git directory that Git describes
	Clone     bool   // has a clone of the worktree at Root, in a volume, and mounts nothing of the host
	Version   string // version of docker-ralph, recorded with the sandbox
	Ephemeral bool
	ReadOnly  bool   // read-only root file system
	Tmp       int64  // size of a container's /tmp in bytes, with ReadOnly; 0 for the default
	Shm       int64  // likewise of /dev/shm
	Runtime   string // OCI runtime, such as "runsc"; empty for the default
	Egress    Egress
	// SignDir is the host directory of the signing socket, mounted read-only;
	// empty for none.
	SignDir string
	// Config is the host directory of the user's agent settings, mounted read-only
	// and created if necessary; empty for none.
	Config string
	// Cache identifies the repository whose caches are mounted: MainRoot or, if
	// that is empty, its common git directory; empty for none. Only containers
	// have caches.
	Cache string
	// Git returns, when the sandbox is created, what replaces the git directory of
	// the worktree; nil to mount that.
	Git func(ctx context.Context) (*gitsync.Layout, error)
}

// Egress is the network access of a sandbox. The zero value is the engine's
// default network, without restrictions.
type Egress struct {
	Policy egress.Policy
	// Amended is the policy with later changes by the user, which the proxy
	// enforces. The zero value means Policy.
	Amended egress.Policy
	// Routes tell the proxy which keys to add to requests.
	Routes   []egress.Route
	Upstream egress.Upstream
	// CA returns PEM certificates that the proxy trusts in addition; nil for none.
	// They are read at the first call. It is safe for concurrent use.
	CA func() string
	// Asked means that the user has chosen the policy, so that a driver that cannot
	// enforce it fails.
	Asked bool
	// Now means that the user is changing the policy, so that a rule that cannot be
	// changed is an error.
	Now bool
}

// Resources are the limits of a sandbox.
type Resources struct {
	Memory   int64 // bytes; no swap beyond it
	NanoCPUs int64 // billionths of a CPU
	Pids     int64
}

// User is the user on the host who owns new files.
type User struct{ UID, GID int }

// Process is a command to run in a sandbox.
type Process struct {
	// ID identifies the process: letters and digits.
	ID string
	// Lasting means that the process goes on without a client, so that the sandbox
	// must not stop as idle. See [Pinner].
	Lasting bool
	// Args are the program and its arguments. The program "ralph" is the one that
	// the driver has installed in the sandbox.
	Args []string
	// AnyCode means that the exit code is that of a program run by ralph, so that
	// no code is an error of ralph itself.
	AnyCode bool
	// Env has KEY=value pairs. Values can be secret and must not appear in an argv.
	Env []string
	// Dir is the working directory.
	Dir string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is that of Stdin and Stdout; nil to run without one.
	Terminal Terminal
	// Lost is closed when the terminal is lost. The process keeps running. A driver
	// that has to disconnect returns [ErrDetached].
	Lost <-chan struct{}
}

// Terminal is the user's terminal.
type Terminal interface {
	// Size returns the number of rows and columns.
	Size() (height, width uint)
	// Resized receives a value after every change of the size.
	Resized() <-chan struct{}
	// MakeRaw puts the terminal into raw mode until restore is called.
	MakeRaw() (restore func(), err error)
	// Files are the terminal's open files, for child processes.
	Files() (stdin, stdout, stderr *os.File)
	// DetachKeys is the key sequence for detaching, as in Docker's configuration;
	// empty for the default.
	DetachKeys() string
}

// Driver creates and runs sandboxes of one kind. Its methods are safe for
// concurrent use by several processes; [Ensurer] takes a lock for changes of a
// sandbox.
type Driver interface {
	// Name is the name of the driver on the command line.
	Name() string
	// Lookup returns the sandbox of that name, with the state NotFound if there is
	// none. It returns a [ForeignError] if the name is used by something else.
	Lookup(ctx context.Context, name string) (Sandbox, error)
	// Create creates the sandbox, and may start it. It returns [ErrExists] if it was
	// created in the meantime.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Start starts a stopped sandbox or unpauses a paused one. It returns [ErrStuck]
	// if that can never succeed.
	Start(ctx context.Context, sb Sandbox) error
	// Ready reports, without running anything in the sandbox, whether this version
	// of docker-ralph has prepared it. After a start, settings of the spec must have
	// been applied too; a running sandbox keeps those that it has.
	Ready(sb Sandbox, spec Spec) bool
	// Prepare installs this version of ralph in a running sandbox. It is idempotent.
	Prepare(ctx context.Context, sb Sandbox, spec Spec) error
	// Busy reports whether any command is running in the sandbox, other than short
	// processes of docker-ralph itself.
	Busy(ctx context.Context, sb Sandbox) (bool, error)
	// Dispatches lists the processes in a running sandbox that [Driver.Exec] has
	// started.
	Dispatches(ctx context.Context, sb Sandbox) ([]Dispatch, error)
	// Exec runs a process and returns its exit code. Canceling ctx ends the wait,
	// not the process.
	Exec(ctx context.Context, sb Sandbox, p Process) (int, error)
	// Stop stops the sandbox and all its processes.
	Stop(ctx context.Context, sb Sandbox) error
	// Remove removes the sandbox and everything that only it uses, but not the
	// worktree. Removing a missing sandbox is not an error.
	Remove(ctx context.Context, sb Sandbox) error
	// List returns all sandboxes of this driver.
	List(ctx context.Context) ([]Sandbox, error)
	// ListCommand returns the command that lists sandboxes without docker-ralph, for messages.
	ListCommand() string
}

// Pinner is a driver whose sandboxes stop when they are idle, but not after a process
// that is lasting.
type Pinner interface {
	// Unpin stops a sandbox in which nothing runs.
	Unpin(ctx context.Context, sb Sandbox) error
}

// Relayer is a driver that connects "ralph _session".
type Relayer interface {
	// Relay runs "ralph _session ID" in a running sandbox that is prepared, and returns its output and input. Close ends it.
	Relay(ctx context.Context, sb Sandbox, id string) (io.ReadWriteCloser, error)
	// RelaysPeers reports whether the relay says of each connection who is at the other end.
	RelaysPeers() bool
}

// Dispatch is a process that runs in a sandbox.
type Dispatch struct {
	ID      string   // [Process.ID]
	Command []string // may be empty
	Since   time.Time
}

// NewServiceID returns a [Process.ID] for a short process of docker-ralph itself,
// such as a fetch of commits.
func NewServiceID() string { return wire.ServicePrefix + rand.Text() }

// Service reports whether the process has an ID of [NewServiceID].
func (d Dispatch) Service() bool { return wire.IsService(d.ID) }

// ErrExists is returned by [Driver.Create] for a name that is taken.
var ErrExists = errors.New("sandbox already exists")

// ErrStuck is returned by [Driver.Start] for a sandbox that has to be recreated.
var ErrStuck = errors.New("sandbox cannot be started")

// ErrNotInstalled is returned by a driver whose program is not installed.
var ErrNotInstalled = errors.New("not installed")

// ErrNotPrepared is returned by [Driver.Exec] when this version of ralph is not in
// the sandbox. Nothing has run; call [Driver.Prepare] first.
var ErrNotPrepared = errors.New("sandbox is not prepared for this version of docker-ralph")

// NotStartedError is returned by [Driver.Exec] when it has not started the process. Another call with
// the same ID does not start it a second time.
type NotStartedError struct {
	Err error
	// Unknown means that the engine may have started it: the connection was lost meanwhile.
	Unknown bool
}

func (e *NotStartedError) Error() string { return e.Err.Error() }

func (e *NotStartedError) Unwrap() error { return e.Err }

// ErrDisconnected means that the connection to a process was lost, which may still run.
var ErrDisconnected = errors.New("lost the connection to the engine")

// ErrDetached is returned by [Driver.Exec] when the user has detached from the
// process.
var ErrDetached = errors.New("detached")

// ForeignError means that the name of a sandbox, or of a part of one, is used by something that
// this client did not create.
type ForeignError struct {
	Name, What string
	// Client names the other client that created it; empty if docker-ralph did not create it.
	Client string
	// Sandbox is the sandbox of the other client; empty for a part of one.
	Sandbox Sandbox
}

// Foreign returns a [ForeignError] for something that docker-ralph did not create, with a hint.
func Foreign(name, what string) error {
	return hint.Wrap(&ForeignError{Name: name, What: what + " that docker-ralph did not create"}, "rename or remove it")
}

// Unrecorded returns a [ForeignError] for a microVM of which this client has no record: another client, or a user,
// created it.
func Unrecorded(name, what string) error {
	return hint.Wrap(&ForeignError{Name: name, What: what + " that this client did not create"},
		"use the Docker configuration directory with which it was created, or rename or remove it")
}

// OfOtherClient returns the [ForeignError] for the sandbox of another client, with hints.
func OfOtherClient(sb Sandbox) error {
	err := hint.Wrap(&ForeignError{Name: sb.Name, What: "sandbox", Client: sb.OtherClient, Sandbox: sb},
		"if that client is gone, run %q", "docker ralph clean --discard-commits "+sb.Name)
	return otherClient(err)
}

// PartOfOtherClient returns the [ForeignError] for something else that another client has created, with hints.
func PartOfOtherClient(name, what, client string) error {
	return otherClient(hint.Wrap(&ForeignError{Name: name, What: what, Client: client}, "if that client is gone, remove it"))
}

func otherClient(err error) error {
	return hint.Wrap(err, "use the Docker configuration directory with which it was created, or a worktree at another path")
}

// SandboxOfOtherClient returns the sandbox of another client, if that is why [Driver.Lookup] has failed.
func SandboxOfOtherClient(err error) (sb Sandbox, is bool) {
	foreign, is := errors.AsType[*ForeignError](err)
	if !is || foreign.Sandbox.Name == "" {
		return Sandbox{}, false
	}
	return foreign.Sandbox, true
}

func (e *ForeignError) Error() string {
	if e.Client != "" {
		return fmt.Sprintf("%s %s belongs to another client, %s", e.What, e.Name, e.Client)
	}
	return fmt.Sprintf("the name %s is in use by %s", e.Name, e.What)
}

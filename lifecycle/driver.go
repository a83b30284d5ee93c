// Package lifecycle is the life of a sandbox: looking it up, making it,
// running a command in it, removing it. It says what every driver must do;
// the drivers are in its subfolders.
package lifecycle

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// State is what a driver found when it looked a sandbox up.
type State string

// The states of a sandbox. Every state but NotFound means that something of
// that name is there.
const (
	NotFound   State = "not found"
	Running    State = "running"
	Stopped    State = "stopped"
	Paused     State = "paused"
	Creating   State = "being created"
	Restarting State = "restarting"
	Dead       State = "dead"
	Removing   State = "removing"
	// Unknown means that the driver could not tell. It must never be taken
	// for NotFound.
	Unknown State = "unknown"
)

// Sandbox is a sandbox as a driver sees it. What it was made for is recorded
// with the sandbox itself, so that a later run can tell.
type Sandbox struct {
	Name  string
	ID    string // the driver's own identity; changes when the sandbox is made anew
	State State
	// Why says, for the state Unknown, what is known and what to do.
	Why string

	Scope      gitrepo.Scope
	Root       string // the work tree it was made for
	MainRoot   string // the repository's main work tree; empty where a driver does not record it
	Agent      string
	Image      string // image reference it was made from
	ConfigHash string // [Spec.Hash] at the time
	User       string // UID:GID that commands run as
	Ephemeral  bool   // to be removed after its one dispatch
	Private    bool   // it works on a clone of its own
	SignDir    string // folder on the host through which its commits can be signed; empty for none
	Config     string // folder on the host with the user's configuration of the agent for it; empty for none
	ConfigAt   string // where it sees that folder
	Cache      string // volume with the caches of its repository; empty for none

	// Egress is the mode of the network policy that it was made for, or empty
	// for a network without a wall.
	Egress egress.Mode
	// Proxy is the address of its way out, if there is one.
	Proxy string
	// Netns is the container that holds its network, and goes on holding it while
	// the sandbox is stopped; empty if it has a network of its own.
	Netns string
	// Run names the time for which its network and what belongs to it have been
	// there. A wall has to be raised again whenever it changes. Only a lookup tells.
	Run string
}

// Spec says what a sandbox must be like.
type Spec struct {
	Name      string
	Scope     gitrepo.Scope
	Root      string   // work tree, mounted writable at the same path
	Mounts    []string // further directories, mounted likewise (a linked worktree's git directory)
	Probe     string   // file below the mounts that must look the same inside
	Moved     string   // where the work tree was when its sandbox was made, if it was moved since
	MainRoot  string   // main work tree of the repository
	Agent     string
	Image     string // image reference; has to be there when Create is called
	Resources Resources
	User      User
	Private   bool   // give it a clone of the repository instead of the work tree, or what Git says
	Version   string // version of this program, for the record
	Ephemeral bool
	ReadOnly  bool   // make the root file system read-only
	Runtime   string // runtime of the engine, such as "runsc"; empty for its own choice
	Egress    Egress
	// SignDir is the folder on the host with the socket through which commits are
	// signed, mounted read-only; empty where none is.
	SignDir string
	// Config is the folder on the host from which the sandbox copies the user's
	// configuration of the agent, mounted read-only and made if need be; empty for
	// none.
	Config string
	// Cache is the path by which the repository is known whose caches the sandbox
	// has: MainRoot or, where that is empty, its common git directory. It is empty
	// for none. Only containers have caches.
	Cache string
	// Shadows are folders of the work tree over which the sandbox has folders of
	// its own. Which ones is no part of [Spec.Hash], but whether there are any.
	Shadows []string
	// Git says, when the sandbox is about to be made, what it sees instead of the
	// work tree's git directory; nil if it sees that one.
	Git func(ctx context.Context) (*gitsync.Layout, error)
}

// Egress says what a sandbox reaches and how. The zero value is the engine's
// ordinary network, without a wall.
type Egress struct {
	Policy egress.Policy
	// Amended is the policy with what the user has said since: the proxy is told
	// this one. It is no part of [Spec.Hash], so that a sandbox need not be made
	// anew for it. The zero value is Policy.
	Amended egress.Policy
	// Routes let the agent use keys that it does not have. They are handed to
	// the proxy and are no part of [Spec.Hash].
	Routes   []egress.Route
	Upstream egress.Upstream
	// CA returns certificates in PEM that the proxy trusts besides its own; nil for
	// none. Only who makes a proxy has to read them. It can be called by several
	// goroutines, and reads them once.
	CA func() string
	// Asked tells that somebody has asked for the policy, so that a driver that
	// cannot keep it has to fail. It is no part of [Spec.Hash].
	Asked bool
}

// Resources bounds what a sandbox may use.
type Resources struct {
	Memory   int64 // bytes; no swap beyond it
	NanoCPUs int64 // billionths of a processor
	Pids     int64
}

// User is the one that invoked us on the host, whom new files shall belong
// to.
type User struct{ UID, GID int }

// Process is a command to be run in a sandbox.
type Process struct {
	// ID identifies the process: letters and digits.
	ID string
	// Lasting says that the process works on when nobody is connected to it
	// any more: the sandbox has to stay for it.
	Lasting bool
	// Args are the program and its arguments. A first element "ralph" means
	// the ralph that the driver has put into the sandbox.
	Args []string
	// AnyCode says that the exit code is that of a program which ralph runs, so
	// that none says anything of ralph itself.
	AnyCode bool
	// Env holds KEY=value pairs. Values can be secret: a driver must not let
	// them appear in an argv.
	Env []string
	// Dir is the working directory.
	Dir string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is nil when the process shall not get one. Otherwise Stdin and
	// Stdout are it.
	Terminal Terminal
	// Signals are passed on to the process.
	Signals <-chan os.Signal
	// Lost is closed when the terminal is lost. The process goes on: a driver that
	// has to let go of it then returns [ErrDetached].
	Lost <-chan struct{}
}

// Terminal is the user's terminal, as far as a driver needs it.
type Terminal interface {
	// Size returns the number of rows and columns.
	Size() (height, width uint)
	// Resized receives a value after every change of the size.
	Resized() <-chan struct{}
	// MakeRaw lets every key reach the process, until restore is called.
	MakeRaw() (restore func(), err error)
	// Files are the terminal's open files, for programs of others that need a
	// real one.
	Files() (stdin, stdout, stderr *os.File)
	// DetachKeys is the key sequence to leave the process running, as in
	// Docker's configuration; empty for the default.
	DetachKeys() string
}

// Driver makes and runs sandboxes of one kind. All methods are safe for
// concurrent use by several processes, but [Ensure] takes a lock around what
// changes a sandbox.
type Driver interface {
	// Name is the driver's name as users write it.
	Name() string
	// Lookup finds the sandbox of that name. No such sandbox is no error but
	// the state NotFound. Something foreign of that name is a [ForeignError].
	Lookup(ctx context.Context, name string) (Sandbox, error)
	// Create makes the sandbox; the state reports whether it runs already.
	// [ErrExists] means that somebody else did so a moment ago.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Start starts a stopped sandbox, and unpauses a paused one. [ErrStuck] means that
	// it never will.
	Start(ctx context.Context, sb Sandbox) error
	// Ready tells, without asking the sandbox, whether Prepare has been done
	// for it by this version of ralph. One that was started a moment ago must also
	// have been told all that the spec says now; one that runs keeps what it has.
	Ready(sb Sandbox, spec Spec) bool
	// Prepare makes a running sandbox fit to run ralph of this version. It can
	// be repeated.
	Prepare(ctx context.Context, sb Sandbox, spec Spec) error
	// Busy reports whether anything runs in the sandbox.
	Busy(ctx context.Context, sb Sandbox) (bool, error)
	// Dispatches returns the processes that [Driver.Exec] has started in a
	// running sandbox and that have not ended.
	Dispatches(ctx context.Context, sb Sandbox) ([]Dispatch, error)
	// Exec runs a process and returns its exit code. ctx bounds the wait for
	// it, not its life.
	Exec(ctx context.Context, sb Sandbox, p Process) (int, error)
	// Stop stops the sandbox and everything in it.
	Stop(ctx context.Context, sb Sandbox) error
	// Remove removes the sandbox with what belongs to it alone. The work tree
	// is not touched. Removing what is gone already is no error.
	Remove(ctx context.Context, sb Sandbox) error
	// List returns all sandboxes that this driver made.
	List(ctx context.Context) ([]Sandbox, error)
	// Manual returns the commands by which a user does things to a sandbox
	// without us, for messages.
	Manual(name string) Manual
}

// Dispatch is a process that runs in a sandbox.
type Dispatch struct {
	ID      string   // [Process.ID]
	Command []string // as far as it is known
	Since   time.Time
}

// servicePrefix starts the [Process.ID] of processes that this program starts
// for itself. rand.Text has no lower-case letters.
const servicePrefix = "s"

// NewServiceID returns a [Process.ID] for a short process that no user has asked
// for, such as a fetch of commits.
func NewServiceID() string { return servicePrefix + rand.Text() }

// Service reports whether the process has an ID of [NewServiceID].
func (d Dispatch) Service() bool { return strings.HasPrefix(d.ID, servicePrefix) }

// Manual are commands that a user can type.
type Manual struct {
	List   string // list what there is
	Stop   string
	Remove string
}

// ErrExists is returned by [Driver.Create] for a name that is taken.
var ErrExists = errors.New("sandbox exists already")

// ErrStuck is returned by [Driver.Start] for a sandbox that has to be recreated
// before it can be started.
var ErrStuck = errors.New("sandbox cannot be started any more")

// ErrNotInstalled is in the errors of a driver whose program is not there.
var ErrNotInstalled = errors.New("not installed")

// ErrNotPrepared is returned by [Driver.Exec] when ralph is not in the sandbox
// after all: nothing has run, and [Driver.Prepare] mends it.
var ErrNotPrepared = errors.New("the sandbox is not prepared for this version of docker-ralph")

// ErrDetached is returned by [Driver.Exec] when the user left the process
// running with the detach keys.
var ErrDetached = errors.New("detached")

// ForeignError says that something which we did not make has a sandbox's
// name.
type ForeignError struct{ Name, What string }

func (e *ForeignError) Error() string {
	return "the name " + e.Name + " is taken by " + e.What + " that docker-ralph did not make: it is left alone. Rename or remove it, then try again"
}

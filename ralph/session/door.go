package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/task"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// DoorOptions configure a [Door].
type DoorOptions struct {
	Store *backlog.Store
	// Session is the ID of the session, and Command the one that runs in it: plan, build, run or shell.
	Session, Command string
	// Token marks the requests of the command itself.
	Token string
	// Peers means that connections say whose they are: see [WithPeer].
	Peers bool
	// PID is that of the command in the sandbox, if it has said so to another door; 0 if not. Began is called once it says
	// so to this one; it may be nil.
	PID   uint32
	Began func(pid uint32)
	// Alive reports whether the command of another session still runs.
	Alive func(ctx context.Context, session string) bool
	// Former is as in [task.IO].
	Former task.Former
	// Begin, Take, Head, Image and Receipts are as in [Local].
	Begin    func(context.Context)
	Take     func(ctx context.Context, commit string) (Verdict, error)
	Head     func(context.Context) (string, error)
	Image    string
	Receipts func(context.Context, []backlog.Receipt)
	// Logs is the directory of logs.
	Logs string
	// Event is called after an event was written to a log; it must not block. It may be nil.
	Event func(runlog.Event)
}

// Door answers the requests of one session: those of its loop, and the task commands of its agent and of others in the
// sandbox.
type Door struct {
	options      DoorOptions
	local        *Local
	loops, tasks answers
	slots        chan struct{} // for task commands whose bodies or answers are in memory
	running      chan struct{} // for the one that is executed
	log          sync.Mutex    // for opening and writing the log
	opened       bool          // the log
	loop         atomic.Value  // string: the ID of the loop, once its log was opened
	pid          atomic.Uint32 // of the command in the sandbox; 0 if unknown
}

// maxTasks is how many task commands are in memory at once; others wait. An agent could exhaust it.
const maxTasks = 8

// NewDoor returns a handler for the requests of a session.
func NewDoor(o DoorOptions) *Door {
	local := &Local{
		Store: o.Store, Session: o.Session, Alive: o.Alive, Former: o.Former, Begin: o.Begin, Take: o.Take, Head: o.Head,
		Image: o.Image, Receipts: o.Receipts,
	}
	d := &Door{options: o, local: local, slots: make(chan struct{}, maxTasks), running: make(chan struct{}, 1)}
	d.pid.Store(o.PID)
	local.Loop = func() string {
		id, _ := d.loop.Load().(string)
		return id
	}
	return d
}

// ServeHTTP answers a request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == taskPath {
		if err := d.checkDescent(r); err != nil {
			answerWith(w)(refuse(http.StatusForbidden, err))
			return
		}
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		case <-r.Context().Done():
			panic(http.ErrAbortHandler) // without an answer, the client repeats it
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxRequest)
	answerWith(w)(d.serve(r))
}

func answerWith(w http.ResponseWriter) func(status int, body []byte) {
	return func(status int, body []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client repeats a request without an answer
	}
}

func (d *Door) serve(r *http.Request) (status int, body []byte) {
	name, isLoop := strings.CutPrefix(r.URL.Path, loopPath)
	switch {
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, errors.New("requests are POST"))
	case r.URL.Path == beginPath:
		return d.begin(r)
	case isLoop:
		return d.serveLoop(r, name)
	case r.URL.Path == taskPath:
		return d.serveTask(r)
	}
	return refuse(http.StatusNotFound, errors.New("unknown request"))
}

// isLoop reports whether the command of the session is a loop.
func (d *Door) isLoop() bool { return d.options.Command == "plan" || d.options.Command == "build" }

func (d *Door) serveLoop(r *http.Request, name string) (status int, body []byte) {
	if !d.isLoop() || !d.isCommand(r) {
		return refuse(http.StatusForbidden, errors.New("only the loop of the session may do this"))
	}
	operation, err := d.operation(name, r.Body)
	if operation == nil {
		return refuse(http.StatusNotFound, fmt.Errorf("unknown request %q", name))
	}
	id := r.Header.Get(requestHeader)
	if err == nil {
		err = checkID(id)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, err)
	}
	return d.loops.once(id, func() (int, []byte) {
		result, err := operation(context.WithoutCancel(r.Context()))
		if err != nil {
			return refuse(http.StatusUnprocessableEntity, d.withoutPath(err))
		}
		return encode(result)
	})
}

// operation decodes a request of the loop. It returns nil for an unknown name.
func (d *Door) operation(name string, body io.Reader) (func(context.Context) (any, error), error) {
	perform, known := operations()[name]
	if !known {
		return d.logOperation(name, body)
	}
	var request loopRequest
	err := decodeStrictly(body, &request)
	return func(ctx context.Context) (any, error) { return perform(ctx, d.local, request) }, err
}

func (d *Door) serveTask(r *http.Request) (status int, body []byte) {
	var request TaskRequest
	err := decodeStrictly(r.Body, &request)
	if err == nil {
		err = checkID(request.ID)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, err)
	}
	select {
	case d.running <- struct{}{}:
		defer func() { <-d.running }()
	case <-r.Context().Done():
		panic(http.ErrAbortHandler) // as above
	}
	return d.tasks.once(request.ID, func() (int, []byte) {
		return encode(d.runTask(context.WithoutCancel(r.Context()), request))
	})
}

// maxOutput bounds what a task command prints, in bytes: encoded, it is an answer.
const maxOutput = 16 << 20

func (d *Door) runTask(ctx context.Context, r TaskRequest) TaskResponse {
	agent, loop, err := d.agent(ctx, r.Agent)
	if err != nil {
		return TaskResponse{Stderr: []byte("Error: " + err.Error() + "\n"), Code: 1}
	}
	stdout, stderr := output{left: maxOutput}, output{left: maxOutput / 4}
	code := task.Run(ctx, r.Args, task.IO{
		Stdin: bytes.NewReader(r.Stdin), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
		Store: d.options.Store, Access: task.AccessAgent, Agent: agent, Loop: loop, Command: d.options.Command,
		Specs: r.Specs, Attempts: r.Attempts, Former: d.options.Former,
	})
	return TaskResponse{Stdout: stdout.text, Stderr: bytes.ReplaceAll(stderr.text, []byte(d.options.Store.Path()), []byte(unnamed)), Code: code}
}

// unnamed is the database in errors: where it is on the host is no business of the sandbox.
const unnamed = "of this worktree"

// pathless is an error without the paths of the host.
type pathless struct {
	error
	text string
}

func (e *pathless) Error() string { return e.text }
func (e *pathless) Unwrap() error { return e.error }

func (d *Door) withoutPath(err error) error {
	text := strings.ReplaceAll(err.Error(), d.options.Store.Path(), unnamed)
	if d.options.Logs != "" {
		text = strings.ReplaceAll(text, d.options.Logs, "the logs")
	}
	return &pathless{err, text}
}

// maxName bounds the name of an agent and the ID of a request, in bytes.
const maxName = 256

// agent returns the agent of a command: that of the session's loop, or else the one that the command names.
func (d *Door) agent(ctx context.Context, named string) (id string, loop bool, err error) {
	if len(named) > maxName {
		return "", false, fmt.Errorf("the ID of the agent is longer than %d bytes", maxName)
	}
	agents, err := d.options.Store.Agents(ctx)
	if err != nil {
		return "", false, err
	}
	for _, a := range agents {
		if a.Loop && a.Session == d.options.Session {
			return a.ID, true, nil
		}
	}
	for _, a := range agents {
		if a.Loop && a.ID == named {
			return "", false, fmt.Errorf("agent '%s' is that of another loop", named)
		}
	}
	return named, false, nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxName {
		return errors.New("the request needs an ID")
	}
	return nil
}

// output is a text of limited size.
type output struct {
	text []byte
	left int
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if len(p) > o.left {
		return 0, errors.New("too long")
	}
	o.left -= len(p)
	o.text = append(o.text, p...)
	return len(p), nil
}

func refuse(status int, err error) (int, []byte) {
	body, _ := json.Marshal(failureOf(err)) // strings only
	return status, body
}

// encode encodes a result.
func encode(result any) (status int, body []byte) {
	body, err := json.Marshal(result)
	if err == nil && len(body) > maxAnswer {
		err = errors.New("too long")
	}
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, fmt.Errorf("encoding the answer: %w", err))
	}
	return http.StatusOK, body
}

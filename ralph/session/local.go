package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/task"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Local is a backlog in a database that this process has open.
type Local struct {
	Store *backlog.Store
	// Session is the ID of the session of its agent; empty for ralph on a plain host.
	Session string
	// Alive reports whether the command of another session still runs. nil: agents of this machine are alive if their
	// process is.
	Alive func(ctx context.Context, session string) bool
	// Former is as in [task.IO].
	Former task.Former
	// Begin is called before a run begins; it may be nil.
	Begin func(context.Context)
	// Take has the user's repository take a commit of the sandbox; nil if it has all of them.
	Take func(ctx context.Context, commit string) (Verdict, error)
	// Head returns the commit of the sandbox's branch that the host has as well. It may be nil.
	Head func(context.Context) (string, error)
	// Image is the digest of the sandbox's image, and Loop returns the ID of the loop, for receipts. Loop may be nil.
	Image string
	Loop  func() string
	// Receipts is called with the receipts of tasks that have become done. It may be nil.
	Receipts func(context.Context, []backlog.Receipt)
}

var _ Backlog = (*Local)(nil)

// Register implements [Backlog].
func (l *Local) Register(ctx context.Context) (r Registration, err error) {
	host, err := backlog.Hostname(os.Getenv)
	if err != nil {
		return r, err
	}
	released, err := l.Store.ReleaseDead(ctx, func(a backlog.Agent) bool {
		alive, known := l.alive(ctx, host, a)
		if known && alive {
			r.Others = append(r.Others, Agent{ID: a.ID, StartedAt: a.StartedAt})
		}
		return known && !alive
	})
	if err != nil {
		return Registration{}, err
	}
	for _, t := range released {
		r.Dead = append(r.Dead, Released(t))
	}
	r.ID, err = l.Store.RegisterAgent(ctx, backlog.Agent{PID: os.Getpid(), Hostname: host, Loop: true, Session: l.Session})
	return r, err
}

// alive reports whether an agent's loop runs, if that can be known. A session, like a process, has one loop at a time.
func (l *Local) alive(ctx context.Context, host string, a backlog.Agent) (alive, known bool) {
	switch {
	case !a.Loop:
		return false, false
	case l.Alive != nil:
		return a.Session != l.Session && l.Alive(ctx, a.Session), true
	case a.Hostname != host:
		return false, false
	}
	return a.PID != os.Getpid() && exists(a.PID), true
}

// exists reports whether there is a process with that ID.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if pid <= 0 || err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // it holds a handle at most
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// Deregister implements [Backlog].
func (l *Local) Deregister(ctx context.Context, agentID string) error {
	return l.Store.DeregisterAgent(ctx, agentID)
}

// BeginRun implements [Backlog].
func (l *Local) BeginRun(ctx context.Context, agentID string) error {
	if l.Begin != nil {
		l.Begin(ctx)
	}
	return l.Store.BeginRun(ctx, agentID)
}

// Status implements [Backlog].
func (l *Local) Status(ctx context.Context) (Status, error) {
	c, err := l.Store.Counts(ctx)
	return Status{Open: c.Open, Active: c.Active, Done: c.Done, Blocked: c.Failed, Waiting: c.Waiting, Question: c.Questions}, err
}

// Tasks implements [Backlog].
func (l *Local) Tasks(ctx context.Context) (map[string]Task, error) {
	all, err := l.Store.List(ctx, backlog.Filter{All: true})
	if err != nil {
		return nil, err
	}
	agents, err := l.Store.AgentIDs(ctx)
	if err != nil {
		return nil, err
	}
	tasks := make(map[string]Task, len(all))
	for _, t := range all {
		state, err := stateOf(t)
		if err != nil {
			return nil, err
		}
		state.Foreign = agents[t.Assignee]
		tasks[t.Slug] = state
	}
	return tasks, nil
}

// Bounds of what a loop gets of a task, in characters. An agent can have created many.
const (
	maxTitle  = 300
	maxReason = 8 << 10
	maxCommit = 64
)

// commitOf returns the commit in the result of a task, or "".
func commitOf(result string) string {
	var named struct {
		Commit string `json:"commit"`
	}
	if json.Unmarshal([]byte(result), &named) != nil {
		return ""
	}
	return termsafe.Shorten(termsafe.Strip(named.Commit), maxCommit)
}

func stateOf(t backlog.Task) (Task, error) {
	content, err := json.Marshal([]any{t.Title, t.Description, t.Category, t.Priority, t.SpecRef, t.Ref, t.Steps, t.Deps})
	if err != nil {
		return Task{}, fmt.Errorf("encoding task %s: %w", t.Slug, err)
	}
	hash := sha256.Sum256(content)
	state := Task{
		Title: termsafe.Shorten(t.Title, maxTitle), Status: t.Status, Assignee: t.Assignee, ClaimedBy: t.ClaimedBy, Attempt: t.Attempt, Retries: t.RetryCount,
		Reason: termsafe.Shorten(t.FailReason, maxReason), Commit: commitOf(t.Result),
		Leased: t.LeaseExpiresAt >= time.Now().UTC().Format(time.DateTime), Content: hex.EncodeToString(hash[:]),
	}
	if q, pending := t.Pending(); pending {
		asked := questionOf(q)
		state.Question = &asked
	}
	for _, q := range t.Answered() {
		state.Answered = append(state.Answered, questionOf(q))
	}
	if state.Status == backlog.StatusWaiting {
		state.Status = backlog.StatusOpen // it becomes so without a change
	}
	return state, nil
}

func questionOf(q backlog.Question) Question {
	return Question{Text: q.Text, Options: q.Options, Default: q.Default, DefaultAt: q.DefaultAt, Answer: q.Answer}
}

// Claimable implements [Backlog].
func (l *Local) Claimable(ctx context.Context) (bool, error) {
	some, _, err := l.Store.Peek(ctx, 1)
	return len(some) > 0, err
}

// Held implements [Backlog].
func (l *Local) Held(ctx context.Context, agentID string) (slugs []string, err error) {
	held, err := l.Store.Lines(ctx, backlog.Filter{Statuses: []string{backlog.StatusActive}, Assignee: agentID})
	for _, t := range held {
		slugs = append(slugs, t.Slug)
	}
	return slugs, err
}

// Renew implements [Backlog].
func (l *Local) Renew(ctx context.Context, agentID string) error {
	_, err := l.Store.RenewHeld(ctx, agentID, backlog.DefaultLease)
	return err
}

// Release implements [Backlog].
func (l *Local) Release(ctx context.Context, agentID, slug, reason string) error {
	return l.Store.As(agentID).Fail(ctx, slug, reason)
}

// Forgive implements [Backlog].
func (l *Local) Forgive(ctx context.Context, slug string) error { return l.Store.Forgive(ctx, slug) }

// Explain implements [Backlog].
func (l *Local) Explain(ctx context.Context, slug, cause string) error {
	return l.Store.Explain(ctx, slug, cause)
}

// Reopen implements [Backlog].
func (l *Local) Reopen(ctx context.Context, slug, reason string) error {
	return l.Store.Reopen(ctx, slug, reason)
}

// Accepted implements [Backlog].
func (l *Local) Accepted(ctx context.Context) (string, error) {
	if l.Head == nil {
		return "", nil
	}
	return l.Head(ctx)
}

// EndRun implements [Backlog]. Its errors wrap [ErrEnvironment].
func (l *Local) EndRun(ctx context.Context, r EndOfRun) (v Verdict, err error) {
	if l.Take != nil {
		v, err = l.take(ctx, r.Commit)
	}
	if err == nil && v.Refused == "" {
		err = l.accept(ctx, r, v)
	}
	if err != nil {
		return Verdict{}, &environmentError{err}
	}
	return v, nil
}

// take takes a commit. There may be none in a repository without commits only.
func (l *Local) take(ctx context.Context, commit string) (v Verdict, err error) {
	if commit == "" {
		if known, err := l.Accepted(ctx); err != nil || known == "" {
			return v, err
		}
	}
	return l.Take(ctx, commit)
}

// accept makes the tasks of a run done.
func (l *Local) accept(ctx context.Context, r EndOfRun, v Verdict) error {
	accepted, err := l.Store.Accept(ctx, r.Agent, l.receipts(r, v))
	if err == nil && len(accepted) > 0 && l.Receipts != nil {
		l.Receipts(ctx, accepted)
	}
	return err
}

const (
	// maxBlocked bounds the number of blocked destinations in a receipt.
	maxBlocked = 64
	// maxModel bounds the name of its model, which an agent reports, in bytes.
	maxModel = 200
)

// receipts returns the receipts of the tasks of a run.
func (l *Local) receipts(r EndOfRun, v Verdict) map[string]backlog.Receipt {
	receipt := backlog.Receipt{
		Commit: r.Commit, Tree: v.Tree, Image: l.Image, Run: r.Run.N, Checks: r.Run.Checks, Model: termsafe.Shorten(r.Run.Model, maxModel),
		Tokens: r.Run.Tokens, CostUSD: r.Run.CostUSD, CostEstimated: r.Run.CostEstimated,
		Blocked: r.Run.Refused[:min(len(r.Run.Refused), maxBlocked)], Seconds: r.Run.Seconds,
	}
	if l.Loop != nil {
		receipt.Loop = l.Loop()
	}
	receipts := make(map[string]backlog.Receipt, len(r.Tasks))
	for _, slug := range r.Tasks {
		receipts[slug] = receipt
	}
	return receipts
}

// RenameCommit implements [Backlog].
func (l *Local) RenameCommit(ctx context.Context, slug, from, to string) error {
	return l.Store.RenameCommit(ctx, slug, from, to)
}

// Park implements [Backlog].
func (l *Local) Park(ctx context.Context, slug, question string, options ...string) error {
	return l.Store.Park(ctx, slug, backlog.NewQuestion{Text: question, Options: options})
}

// ApplyDefaults implements [Backlog].
func (l *Local) ApplyDefaults(ctx context.Context) ([]string, error) {
	return l.Store.ApplyDefaults(ctx)
}

// Overtaken implements [Backlog].
func (l *Local) Overtaken(ctx context.Context, agentID string) ([]string, error) {
	return l.Store.Overtaken(ctx, agentID)
}

// AdoptHint implements [Backlog].
func (l *Local) AdoptHint(ctx context.Context) (string, error) {
	return task.AdoptHint(ctx, l.Store, l.Former), nil
}

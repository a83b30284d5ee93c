package run

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
	relay "github.com/docker-ralph/docker-ralph/lifecycle/session"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	door "github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// sessions answer what commands in the sandboxes of a worktree ask about its backlog.
type sessions struct {
	host     host.Host
	driver   lifecycle.Driver
	worktree gitrepo.Worktree
	name     string // of the worktree's sandbox
	store    *backlog.Store
	notify   config.Notify
	receipts config.Receipts
}

func openSessions(ctx context.Context, h host.Host, driver lifecycle.Driver, wt gitrepo.Worktree, cfg config.Effective) (sessions, error) {
	name, err := h.SandboxName(wt)
	if err != nil {
		return sessions{}, err
	}
	if err := backlogs.SweepCopies(h, name); err != nil {
		h.Warn(fmt.Errorf("removing what an earlier dry run has left: %w", err))
	}
	store, err := backlogs.Open(ctx, h, wt)
	return sessions{h, driver, wt, name, store, cfg.Notify, cfg.Receipts}, err
}

func (s sessions) close() {
	if err := s.store.Close(); err != nil {
		s.host.Warn(err)
	}
}

// release reopens the tasks of a loop that has ended, which it could not do if it was killed, and removes the copy of a dry
// run.
func (s sessions) release(ctx context.Context, h session, ended Result) {
	if !h.record.IsLoop() || ended.lost != nil { // it may still run
		return
	}
	_, err := s.store.ReleaseDead(context.WithoutCancel(ctx), func(a backlog.Agent) bool { return a.Session == h.id })
	if err != nil {
		s.host.Warn(fmt.Errorf("reopening the tasks of the loop: %w", err))
	}
	s.forgetCopy(h.id)
}

// logs is the directory of the worktree's logs.
func (s sessions) logs() string { return s.host.LogsDir(s.name) }

// sessionEnv is the environment by which a command finds its session.
func sessionEnv(n host.Record) []string {
	return []string{wire.SessionEnv + "=" + n.ID, wire.SessionTokenEnv + "=" + n.Token}
}

// began records the process of the command in the sandbox, for commands that serve its session after this one.
func (h session) began(pid uint32) {
	if err := h.record.Began(pid); err != nil {
		h.Warn(err)
	}
}

// serve answers the requests of a command, and calls event for each event of a loop, until stop is called. git is
// the sandbox's clone, which takes the commits of a loop; nil without one. began, which may be nil, is as in
// [door.DoorOptions]. The context is for the start only: a command that is interrupted finishes its run.
func (s sessions) serve(ctx context.Context, sb lifecycle.Sandbox, n host.Record, began func(pid uint32), git *commits.Git, event func(runlog.Event)) (stop func(), err error) {
	relayer, ok := s.driver.(lifecycle.Relayer)
	if !ok {
		return nil, fmt.Errorf("driver %s does not connect sandboxes with this machine", s.driver.Name())
	}
	command, _ := host.LoopCommand(n.Command)
	store, closeStore, err := s.storeOf(ctx, n)
	if err != nil {
		return nil, err
	}
	options := door.DoorOptions{
		Store: store, Session: n.ID, Command: command, Token: n.Token, Peers: relayer.RelaysPeers(), PID: n.PID, Began: began,
		Alive:  func(ctx context.Context, session string) bool { return s.alive(ctx, sb, session) },
		Former: backlogs.Former{Host: s.host, Worktree: s.worktree},
		Image:  sb.ImageID,
		Logs:   s.logs(), Event: event,
	}
	options.Take = func(ctx context.Context, commit string) (door.Verdict, error) {
		return commits.TakeLive(ctx, s.host, s.worktree, s.name, commit)
	}
	if git != nil {
		options.Head = git.Accepted
		options.Begin = func(ctx context.Context) { git.Begin(ctx, sb, n.ID) }
		options.Take = func(ctx context.Context, commit string) (door.Verdict, error) { return git.Take(ctx, sb, commit) }
	}
	if s.receipts.Notes {
		options.Receipts = func(ctx context.Context, all []backlog.Receipt) { commits.AddNotes(ctx, s.host, s.worktree, all) }
	}
	served, err := relay.Serve(ctx, relayer, sb, n.ID, door.NewDoor(options), s.host.Report)
	if err != nil {
		closeStore()
		return nil, err
	}
	return func() {
		served.Close()
		closeStore()
	}, nil
}

// serveLeft answers the requests of commands whose processes on this machine have died, and sends the
// notifications of their loops, until stop is called. git is as in serve.
func (s sessions) serveLeft(ctx context.Context, sb lifecycle.Sandbox, left []host.Record, git *commits.Git) (stop func()) {
	var stops []func()
	for _, n := range left {
		var loop *notify.Loop
		if n.IsLoop() {
			loop = notify.FollowLeft(newSender(ctx, s.host, s.notify), notification(s.worktree, sb.Name, n.Command[1]))
		}
		stop, err := s.serve(ctx, sb, n, nil, git, loop.Event)
		if err != nil {
			loop.Close()
			s.host.Warn(fmt.Errorf("connecting %q in sandbox %s: %w", strings.Join(n.Command, " "), sb.Name, err))
			continue
		}
		stops = append(stops, func() {
			stop()
			loop.Close()
		})
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// ServeLeft answers the requests of the loops of a worktree that still run, but whose processes on this machine have
// died, takes their commits, and sends their notifications, until stop is called.
func ServeLeft(ctx context.Context, h host.Host, wt gitrepo.Worktree, records []host.Record) (stop func()) {
	var stops []func()
	for _, n := range records {
		if n.Live || !n.IsLoop() {
			continue
		}
		stop, err := serveLeft(ctx, h, wt, n)
		if err != nil {
			h.Warn(err)
			continue
		}
		stops = append(stops, stop)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func serveLeft(ctx context.Context, h host.Host, wt gitrepo.Worktree, n host.Record) (stop func(), err error) {
	none := func() {}
	asked, cancel := context.WithTimeout(ctx, host.AskTimeout)
	defer cancel()
	l, err := h.Locate(asked, n.Sandbox)
	if err != nil || l.Sandbox.State != lifecycle.Running {
		return none, err
	}
	if running, err := Runs(asked, l.Backend.Driver, l.Sandbox, n.ID); err != nil || !running {
		return none, err
	}
	cfg, err := approval.Load(config.Sources{UserDir: h.StateDir, Getenv: h.Getenv})
	if err != nil { // without notifications and notes
		h.Warn(err)
	}
	git, err := commits.OpenLeft(ctx, h, l)
	if err != nil {
		return none, err
	}
	s, err := openSessions(ctx, h, l.Backend.Driver, wt, cfg)
	if err != nil {
		return none, err
	}
	hangUp := s.serveLeft(ctx, l.Sandbox, []host.Record{n}, git)
	return func() {
		hangUp()
		s.close()
		git.ReportTaken()
	}, nil
}

// alive reports whether the command of a session runs: a process on this machine waits for it, or it is still in
// its sandbox. Without an answer it is assumed to.
func (s sessions) alive(ctx context.Context, sb lifecycle.Sandbox, id string) bool {
	records, err := s.host.RecordsOf(s.name)
	if err != nil {
		return true
	}
	at := sb.Name
	for _, n := range records {
		if n.ID == id && n.Live {
			return true
		} else if n.ID == id {
			at = n.Sandbox
		}
	}
	ctx, cancel := context.WithTimeout(ctx, host.AskTimeout)
	defer cancel()
	if at != sb.Name {
		if sb, err = s.driver.Lookup(ctx, at); err != nil {
			return true
		}
	}
	running, err := Runs(ctx, s.driver, sb, id)
	return err != nil || running
}

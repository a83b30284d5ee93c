package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

const (
	openLogName  = "log-open"
	writeLogName = "log-write"
)

// LogRequest opens the log of a loop on the host.
type LogRequest struct {
	Loop runlog.Loop `json:"loop"`
	// Resume continues the last loop. Recover continues the loop of the session, which died with its sandbox: an
	// interrupted run gets the outcome and the reason.
	Resume  bool   `json:"resume,omitempty"`
	Recover bool   `json:"recover,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// logOpened is its result.
type logOpened struct {
	Loop    runlog.Loop        `json:"loop"`
	Earlier []runlog.Iteration `json:"earlier,omitempty"` // all runs so far
	Made    int                `json:"made,omitempty"`    // those of the session
	Sizes   map[string]int64   `json:"sizes,omitempty"`   // of the files that grow
}

// logRequest are the next parts of a log.
type logRequest struct {
	Loop  string    `json:"loop"`
	Parts []logPart `json:"parts"`
}

// logPart is a part of a file, or all of one to replace.
type logPart struct {
	File    string `json:"file"`
	Offset  int64  `json:"offset,omitempty"`
	Replace bool   `json:"replace,omitempty"`
	Data    []byte `json:"data,omitempty"`
}

// logWritten are the files of which a part could not be written. The following parts of such a file were skipped.
type logWritten struct {
	Failed map[string]logFailure `json:"failed,omitempty"`
}

type logFailure struct {
	Error string `json:"error"`
	Size  int64  `json:"size"` // of the file
}

// logOperation decodes a request about the log. It returns nil for other names.
func (d *Door) logOperation(name string, body io.Reader) (operation func(context.Context) (any, error), err error) {
	switch name {
	case openLogName:
		var r LogRequest
		err = decodeStrictly(body, &r)
		operation = func(ctx context.Context) (any, error) { return d.openLog(ctx, r) }
	case writeLogName:
		var r logRequest
		err = decodeStrictly(body, &r)
		operation = func(context.Context) (any, error) { return d.writeLog(r) }
	}
	return operation, err
}

// openLog opens the log of the loop, once: where an agent can pose as its loop, it gets no logs without end, and none of
// other loops.
func (d *Door) openLog(ctx context.Context, r LogRequest) (opened logOpened, err error) {
	d.log.Lock()
	defer d.log.Unlock()
	if d.opened {
		return logOpened{}, errors.New("the loop has opened its log already")
	}
	scope := d.options.Store.Scope()
	loop := runlog.Loop{
		Mode: r.Loop.Mode, Agent: r.Loop.Agent, AgentID: r.Loop.AgentID, Started: r.Loop.Started,
		Repo: scope.Repo, Branch: scope.Branch, Dispatch: d.options.Session,
	}
	var log *runlog.Log
	switch {
	case r.Recover:
		finished := func(agentID string) []string { return finishedBy(ctx, d.local, agentID) }
		log, opened.Earlier, opened.Made, err = runlog.Recover(d.options.Logs, loop, r.Outcome, r.Reason, finished)
	case r.Resume:
		var running []string
		if running, err = d.local.running(ctx); err == nil {
			log, opened.Earlier, err = runlog.Resume(d.options.Logs, loop, func(agentID string) bool { return slices.Contains(running, agentID) })
		}
	default:
		log, err = runlog.Create(d.options.Logs, loop)
	}
	if err != nil {
		return logOpened{}, err
	}
	defer log.Close()
	d.opened, opened.Loop = true, log.Loop
	d.loop.Store(log.Loop.ID)

	received, err := runlog.Receive(d.options.Logs, log.Loop.ID)
	if err != nil {
		return logOpened{}, err
	}
	defer received.Close()
	opened.Sizes = received.Sizes()
	return opened, nil
}

// writeLog writes the next parts of a log of this session. Events are reported once what was written before them is
// in its files.
func (d *Door) writeLog(r logRequest) (written logWritten, err error) {
	d.log.Lock()
	defer d.log.Unlock()

	received, err := runlog.Receive(d.options.Logs, r.Loop)
	if err != nil {
		return logWritten{}, err
	}
	defer received.Close()
	if received.Loop.Dispatch != d.options.Session {
		return logWritten{}, fmt.Errorf("the log %s is that of another session", received.Loop.ID)
	}

	written.Failed = map[string]logFailure{}
	for _, p := range r.Parts {
		if _, failed := written.Failed[p.File]; failed {
			continue
		}
		if p.Replace {
			err = received.Replace(p.File, p.Data)
		} else {
			err = received.Append(p.File, p.Offset, p.Data)
		}
		if err != nil {
			written.Failed[p.File] = logFailure{Error: err.Error(), Size: received.Size(p.File)}
		}
	}
	if d.options.Event != nil {
		for _, e := range received.Events {
			d.options.Event(e)
		}
	}
	return written, nil
}

// finishedBy returns the tasks that an agent has finished.
func finishedBy(ctx context.Context, b Backlog, agentID string) (slugs []string) {
	if agentID == "" {
		return nil
	}
	all, _ := b.Tasks(ctx) // only for the log
	for slug, task := range all {
		if task.Status == backlog.StatusDone && task.Assignee == agentID {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// running returns the other agents that are known to run.
func (l *Local) running(ctx context.Context) (ids []string, err error) {
	host, err := backlog.Hostname(os.Getenv)
	if err != nil {
		return nil, err
	}
	agents, err := l.Store.Agents(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if alive, known := l.alive(ctx, host, a); alive && known {
			ids = append(ids, a.ID)
		}
	}
	return ids, nil
}

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	backlogstore "github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// demo is a repository with the logs of loops, and a machine without an engine.
type demo struct {
	t       *testing.T
	root    string
	host    host.Host
	running string // id of the running loop
}

func newDemo(t *testing.T) *demo {
	t.Helper()
	d := &demo{t: t, root: filepath.Join(t.TempDir(), "shop")}
	assert.NilError(t, os.Mkdir(d.root, 0o755))
	d.host = host.Host{
		Dir: d.root, StateDir: t.TempDir(), Stdout: t.Output(), Stderr: t.Output(),
		Engine:    func() (host.API, error) { return nil, errors.New("no engine") },
		HasPlugin: func(string) bool { return false },
		LookupEnv: func(string) (string, bool) { return "", false },
	}
	d.git("init", "--quiet", "-b", "main")
	d.git("remote", "add", "origin", "https://github.com/acme/shop.git")
	d.commit("README.md", "# Shop\n")
	return d
}

func (d *demo) git(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "git", append([]string{"-c", "user.name=Una User", "-c", "user.email=una@example.com"}, args...)...)
	cmd.Dir = d.root
	out, err := cmd.Output()
	assert.NilError(d.t, err)
	return strings.TrimSpace(string(out))
}

// commit commits a file and returns the commit.
func (d *demo) commit(file, content string) string {
	d.t.Helper()
	d.write(filepath.Join(d.root, file), content)
	d.git("add", "--all")
	d.git("commit", "--quiet", "-m", "Change "+file)
	return d.git("rev-parse", "HEAD")
}

func (d *demo) write(path, content string) {
	d.t.Helper()
	assert.NilError(d.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(d.t, os.WriteFile(path, []byte(content), 0o600))
}

// source returns the demo's source. The running loop is in a sandbox.
func (d *demo) source() *source {
	s := newSource(d.host, false)
	s.collect = func(ctx context.Context, h host.Host, opts watch.Options) (watch.State, error) {
		state, err := watch.Collect(ctx, h, opts)
		if d.running == "" || err != nil {
			return state, err
		}
		state.Warnings = nil
		w := &state.Worktrees[0]
		w.Sandbox = &manage.SandboxStatus{Name: "ralph-acme-shop-main", Repo: w.Repo, Branch: w.Branch, State: "running", Agent: "claude", Driver: "container", Worktree: w.Root}
		for i := range w.Loops {
			w.Loops[i].Running = w.Loops[i].ID == d.running
		}
		return state, nil
	}
	return s
}

// log is a log that a test writes at the times that it chooses.
type log struct {
	*demo
	dir    string
	loop   runlog.Loop
	time   time.Time
	events []string
}

// logs is the directory of the logs of a branch.
func (d *demo) logs(branch string) string {
	return d.host.LogsOf(lifecycle.Sandbox{Root: d.root, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: branch}})
}

func (d *demo) newLog(branch string, started time.Time) *log {
	id := started.UTC().Format("20060102-150405") + "-build"
	return &log{demo: d, dir: filepath.Join(d.logs(branch), id), time: started, loop: runlog.Loop{
		ID: id, Mode: "build", Repo: "acme/shop", Branch: branch, Agent: "claude", Started: started.UTC(),
	}}
}

// emit logs an event after some time.
func (l *log) emit(after time.Duration, data runlog.Data) {
	l.t.Helper()
	l.time = l.time.Add(after)
	line, err := json.Marshal(runlog.Event{Time: l.time.UTC(), Data: data})
	assert.NilError(l.t, err)
	l.events = append(l.events, string(line))
}

func (l *log) save(now runlog.Now) {
	l.t.Helper()
	l.write(filepath.Join(l.dir, "events.jsonl"), strings.Join(l.events, "\n")+"\n")
	for name, content := range map[string]any{"loop.json": l.loop, "now.json": now} {
		b, err := json.Marshal(content)
		assert.NilError(l.t, err)
		l.write(filepath.Join(l.dir, name), string(b))
	}
}

func (l *log) output(run int, text string) {
	l.t.Helper()
	l.write(filepath.Join(l.dir, strconv.Itoa(run)+".log"), text)
}

// demoRun is a run in the demo.
type demoRun struct {
	task, title, outcome, reason string
	minutes                      float64
	cost                         float64
	file, content                string // committed
	check                        string // fails
}

// run logs a whole run.
func (l *log) run(n int, r demoRun) {
	l.t.Helper()
	it := runlog.Iteration{
		N: n, Tasks: []string{r.task}, Outcome: r.outcome, Reason: r.reason, Started: l.time.UTC(), Seconds: r.minutes * 60, Model: "claude-sonnet-4-5",
		Tokens:  &event.Tokens{Input: int64(r.cost * 9000), Output: int64(r.cost * 14000), CacheRead: int64(r.cost * 610000), CacheWrite: int64(r.cost * 42000)},
		CostUSD: &r.cost,
	}
	l.emit(0, &runlog.RunStart{N: n, Commit: l.git("rev-parse", "HEAD")})
	l.emit(3*time.Second, &runlog.TaskChange{N: n, ID: r.task, Title: r.title, Status: "active"})
	l.output(n, fmt.Sprintf("Task %s: %s\n\nReading the code …\n$ go test ./...\nok  \tshop/api\t0.31s\n\nDone (%s) | cost: $%.4f\n", r.task, r.title, r.outcome, r.cost))
	if r.file != "" {
		it.Commit, it.Commits = l.commit(r.file, r.content), 1
	}
	it.Checks = []runlog.Check{{Command: "go test ./...", Seconds: 8.4}, {Command: "npm run lint", Seconds: 3.1, Failure: r.check}}
	change := &runlog.TaskChange{N: n, ID: r.task, Title: r.title, Status: "open", Reason: r.reason}
	switch r.outcome {
	case "done":
		it.Done, change.Status = it.Tasks, "done"
	case "failed":
		it.Checks, change.Status = nil, "blocked"
		it.Refused = []denylog.Refusal{{Host: "db.example.com", Port: 5432, Times: 4}}
	}
	if r.check != "" {
		change.Reason = `check "npm run lint" ` + r.check
	}
	l.emit(time.Duration(r.minutes*float64(time.Minute)), &runlog.RunEnd{Iteration: it})
	l.emit(0, change)
	l.time = l.time.Add(4 * time.Second)
}

// fill writes two loops: one that has ended, and one that runs.
func (d *demo) fill() {
	d.t.Helper()
	limits := runlog.Limits{MaxIterations: 20, MaxCostUSD: 10, MaxTokens: 6_000_000, MaxDurationSecs: 8 * 3600}
	ended := d.newLog("main", time.Now().Add(-27*time.Hour))
	ended.emit(0, &runlog.LoopStart{Mode: "build", Agent: "claude", Branch: "main", Tasks: runlog.Counts{Open: 1}})
	ended.run(1, demoRun{task: "api/00", title: "Set up the module", outcome: "done", minutes: 3.2, cost: 0.21, file: "go.mod", content: "module shop\n\ngo 1.26\n"})
	ended.emit(time.Second, &runlog.LoopEnd{Stop: "done", Summary: "Total: 1 run, 1 task done, 1 commit"})
	ended.loop.Ended, ended.loop.Stop, ended.loop.Summary = ended.time.UTC(), "done", "Total: 1 run, 1 task done, 1 commit"
	ended.save(runlog.Now{N: 1, State: runlog.StateEnded})

	l := d.newLog("main", time.Now().Add(-124*time.Minute))
	l.emit(0, &runlog.LoopStart{Mode: "build", Agent: "claude", Branch: "main", Limits: limits, Tasks: runlog.Counts{Open: 12, Done: 1}})
	l.output(0, "Checking the repository\n")
	for i, r := range []demoRun{
		{task: "api/01", title: "List products", outcome: "done", minutes: 9.5, cost: 0.62, file: "api/list.go", content: "package api\n\n// List returns all products.\nfunc List() []Product { return nil }\n"},
		{task: "api/02", title: "Add products to the cart", outcome: "done", minutes: 14.1, cost: 0.94, file: "api/cart.go", content: "package api\n\n// Cart holds products.\ntype Cart struct{ Items []Product }\n"},
		{task: "api/03", title: "Sort products by price", outcome: "checks failed", minutes: 6.3, cost: 0.41, file: "api/sort.go", content: "package api\n\nfunc sort() {}\n", check: "failed with exit code 1"},
		{task: "api/03", title: "Sort products by price", outcome: "done", minutes: 4.8, cost: 0.33, file: "api/sort.go", content: "package api\n\n// Sort sorts products by price.\nfunc Sort(all []Product) { slices.SortFunc(all, byPrice) }\n"},
		{task: "db/01", title: "Migrate the orders", outcome: "failed", minutes: 11.6, cost: 0.88, reason: "cannot connect to db.example.com:5432"},
		{task: "web/01", title: "Show the cart in the header", outcome: "done", minutes: 17.2, cost: 1.36, file: "web/header.html", content: "<header>\n  <a href=\"/cart\">Cart</a>\n</header>\n"},
		{task: "web/02", title: "Search products", outcome: "done", minutes: 12.9, cost: 0.97, file: "web/search.html", content: "<input type=\"search\">\n"},
		{task: "web/03", title: "Paginate the product list", outcome: "timed out", minutes: 15, cost: 1.12, reason: "no output for 10m"},
		{task: "web/03", title: "Paginate the product list", outcome: "done", minutes: 8.4, cost: 0.58, file: "web/list.html", content: "<nav class=\"pages\"></nav>\n"},
	} {
		l.run(i+1, r)
	}
	l.emit(time.Second, &runlog.Question{
		N: 9, ID: "pay/01", Title: "Take payments", Question: "Which provider should the shop use?",
		Options: []string{"Stripe", "Adyen"}, Default: "Stripe", DefaultAt: time.Now().Add(5 * time.Hour).UTC(),
	})
	l.emit(time.Second, &runlog.LimitNear{N: 9, Name: "max_tokens", Used: 4_900_000, Limit: 6_000_000})
	l.emit(time.Second, &runlog.RunStart{N: 10, Commit: l.git("rev-parse", "HEAD")})
	l.emit(2*time.Second, &runlog.TaskChange{N: 10, ID: "mail/01", Title: "Send a receipt by mail", Status: "active"})
	l.emit(time.Second, &runlog.State{N: 10, State: runlog.StateWorking})
	cost := 0.46
	l.emit(90*time.Second, &runlog.UsageSoFar{N: 10, Usage: runlog.Usage{Tokens: &event.Tokens{Input: 4000, Output: 6100, CacheRead: 280000}, CostUSD: &cost}})
	l.output(10, "Task mail/01: Send a receipt by mail\n\n● Read api/cart.go\n● Write mail/receipt.go\n\x1b[32m$ go build ./...\x1b[0m\n")
	l.save(runlog.Now{N: 10, Tasks: []string{"mail/01"}, Title: "Send a receipt by mail", State: runlog.StateWorking, Started: l.time.UTC()})
	d.running = l.loop.ID
	d.backlog(
		row("api/00", "Set up the module", "done", 1), row("api/01", "List products", "done", 1), row("api/02", "Add products to the cart", "done", 1),
		row("pay/01", "Take payments", "question", 1), row("ops/01", "Deploy to staging", "open", 3), row("mail/02", "Let customers unsubscribe", "open", 2),
		row("web/04", "Describe pictures for screen readers", "open", 2),
	)
}

// demoTask is a task of the backlog.
type demoTask struct {
	backlogstore.NewTask
	status string
}

func row(slug, title, status string, priority int) demoTask {
	return demoTask{backlogstore.NewTask{Slug: slug, Title: title, Priority: priority}, status}
}

// backlog creates the backlog.
func (d *demo) backlog(tasks ...demoTask) {
	d.t.Helper()
	ctx := d.t.Context()
	wt := gitrepo.Worktree{Root: d.root, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}
	store, err := backlogs.Open(ctx, d.host, wt)
	assert.NilError(d.t, err)
	for _, t := range tasks {
		assert.NilError(d.t, store.Create(ctx, t.NewTask))
		switch t.status {
		case "question":
			assert.NilError(d.t, store.Park(ctx, t.Slug, backlogstore.NewQuestion{Text: "Which one?"}))
		case "open":
		default:
			assert.NilError(d.t, store.Update(ctx, t.Slug, backlogstore.Changes{Status: &t.status}))
		}
	}
	assert.NilError(d.t, store.Close())
}

package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sqlshell"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestLoopUsesItsBacklog(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	c := connect(t, DoorOptions{Store: s, Session: "s1", Command: "build", Alive: func(context.Context, string) bool { return true }}, true)
	other, err := s.RegisterAgent(ctx, backlog.Agent{Loop: true, Session: "s2"})
	assert.NilError(t, err)
	r, err := c.Register(ctx)
	assert.NilError(t, err)
	assert.Equal(t, r.Others[0].ID, other)
	add(t, s, "a", "b")

	claimable, err := c.Claimable(ctx)
	assert.NilError(t, err)
	assert.Equal(t, claimable, true)
	assert.NilError(t, c.BeginRun(ctx, r.ID))
	out := runTask(t, c, "whoever", "claim", "a")
	assert.Assert(t, strings.Contains(string(out.Stdout), "\nassignee: "+r.ID+"\n"), "%s", out.Stdout)
	held, err := c.Held(ctx, r.ID)
	assert.NilError(t, err)
	assert.DeepEqual(t, held, []string{"a"})
	assert.NilError(t, c.Renew(ctx, r.ID))
	assert.NilError(t, c.Release(ctx, r.ID, "a", "no"))
	assert.NilError(t, c.Forgive(ctx, "a"))
	assert.NilError(t, c.Explain(ctx, "a", "/tmp is full"))

	claimBefore(t, s, "b", r.ID)
	claim(t, s, "b", other)
	lost, err := c.Overtaken(ctx, r.ID)
	assert.NilError(t, err)
	assert.DeepEqual(t, lost, []string{"b"})
	assert.NilError(t, s.Done(ctx, "b", `{"commit":"1"}`))
	assert.NilError(t, c.RenameCommit(ctx, "b", "1", "2"))
	tasks, err := c.Tasks(ctx)
	assert.NilError(t, err)
	assert.Equal(t, tasks["b"].Commit, "2")
	assert.Equal(t, tasks["a"].Reason, "/tmp is full: no")
	assert.NilError(t, c.Reopen(ctx, "b", "make test failed"))
	assert.NilError(t, c.Park(ctx, "b", "Is the check right?", "yes", "no"))
	defaults, err := c.ApplyDefaults(ctx)
	assert.NilError(t, err)
	assert.Equal(t, len(defaults), 0)

	local, remote := &Local{Store: s}, Backlog(c)
	for _, b := range []Backlog{local, remote} {
		status, err := b.Status(ctx)
		assert.NilError(t, err)
		assert.Equal(t, status, Status{Open: 1, Question: 1})
		text, err := b.AdoptHint(ctx)
		assert.NilError(t, err)
		assert.Equal(t, text, "")
	}
	want, err := local.Tasks(ctx)
	assert.NilError(t, err)
	got, err := remote.Tasks(ctx)
	assert.NilError(t, err)
	assert.DeepEqual(t, got, want)
	assert.NilError(t, c.Deregister(ctx, r.ID))
}

func TestOnlyTheLoopOperatesOnTheBacklog(t *testing.T) {
	for _, tc := range []struct {
		name, token, sent    string
		command              string
		peers, loop, allowed bool
	}{
		{name: "agent"},
		{name: "connection only", token: "secret", peers: true, loop: true},
		{name: "connection of a command that is no loop", peers: true, loop: true},
		{name: "connection of a relay that was replaced", token: "secret", loop: true},
		{name: "token of another connection", token: "secret", sent: "secret", peers: true},
		{name: "command that is no loop", command: "shell", token: "secret", sent: "secret", peers: true, loop: true},
		{name: "connection and token", token: "secret", sent: "secret", peers: true, loop: true, allowed: true},
		{name: "token", token: "secret", sent: "secret", allowed: true},
		{name: "wrong token", token: "secret", sent: "guess"},
		{name: "no token", token: "secret"},
		{name: "token that no one has", sent: "guess"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dial := listen(t, NewDoor(DoorOptions{Store: newStore(t), Token: tc.token, Command: cmp.Or(tc.command, "build"), Peers: tc.peers, PID: 7}), tc.loop)
			c := NewClient(ClientOptions{Dial: dial, Token: tc.sent})
			_, err := c.Status(t.Context())
			if tc.allowed {
				assert.NilError(t, err)
				return
			}
			assert.Error(t, err, "only the loop of the session may do this")
			assert.Equal(t, runTask(t, c, "", "list").Code, 0)
		})
	}
}

func TestErrorsKeepTextKindAndHints(t *testing.T) {
	s := newStore(t)
	c := connect(t, DoorOptions{Store: s}, true)
	err := c.Release(t.Context(), "me", "none", "")
	assert.Error(t, err, "task 'none' not found")
	assert.ErrorIs(t, err, backlog.ErrNotFound)
	add(t, s, "a")
	assert.ErrorIs(t, c.Release(t.Context(), "me", "a", ""), backlog.ErrNotActive)
	claim(t, s, "a", "you")
	assert.ErrorIs(t, c.Release(t.Context(), "me", "a", ""), backlog.ErrLost)
	assert.ErrorIs(t, c.Reopen(t.Context(), "a", ""), backlog.ErrNotDone)

	inner := hint.Wrap(fmt.Errorf("it broke: %w", backlog.ErrLocked), "wait")
	err = failureOf(hint.Wrap(inner, "or stop it")).err()
	assert.Error(t, err, "it broke: database is locked")
	assert.ErrorIs(t, err, backlog.ErrLocked)
	assert.DeepEqual(t, hint.Of(err), []string{"or stop it", "wait"})
}

func TestAgentOfATaskCommand(t *testing.T) {
	s := newStore(t)
	byHand, err := s.RegisterAgent(t.Context(), backlog.Agent{})
	assert.NilError(t, err)
	other, err := s.RegisterAgent(t.Context(), backlog.Agent{Loop: true, Session: "s2"})
	assert.NilError(t, err)
	c := connect(t, DoorOptions{Store: s, Session: "s1", Command: "shell"}, false)
	assignee := func(agent string) string {
		add(t, s, "a"+agent)
		assert.Equal(t, runTask(t, c, agent, "claim", "a"+agent).Code, 0)
		task, err := s.Show(t.Context(), "a"+agent)
		assert.NilError(t, err)
		return task.Assignee
	}
	assert.Equal(t, assignee(""), "")
	assert.Equal(t, assignee("me"), "me")
	assert.Equal(t, assignee(byHand), byHand)
	want := TaskResponse{Stderr: []byte("Error: agent '" + other + "' is that of another loop\n"), Code: 1}
	assert.DeepEqual(t, runTask(t, c, other, "list"), want)
	assert.Equal(t, runTask(t, c, strings.Repeat("x", maxName+1), "list").Code, 1)

	mine, err := s.RegisterAgent(t.Context(), backlog.Agent{Loop: true, Session: "s1"})
	assert.NilError(t, err)
	assert.Equal(t, assignee("you"), mine)
	assert.Equal(t, runTask(t, c, other, "list").Code, 0)
	assert.NilError(t, s.DeregisterAgent(t.Context(), mine))
	assert.Equal(t, assignee("they"), "they")
}

func TestTaskCommandsHaveTheAccessOfAnAgent(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	for _, loop := range []bool{false, true} {
		out := runTask(t, connect(t, DoorOptions{Store: s, Command: "build"}, loop), "me", "delete", "a")
		assert.Equal(t, string(out.Stderr), "Error: only a user may run \"task delete\"\nHint: run \"docker ralph task delete\" outside of the sandbox\n")
		assert.Equal(t, out.Code, 1)
	}
	plan := TaskRequest{Args: []string{"plan-sync"}, Stdin: []byte(`{"id":"p","t":"P","spec":"specs/a.md"}`), Specs: []string{"a.md"}}
	out, err := connect(t, DoorOptions{Store: s, Command: "plan"}, false).Task(t.Context(), plan)
	assert.NilError(t, err)
	assert.Equal(t, out.Code, 0, "%s", out.Stderr)
	task, err := s.Show(t.Context(), "p")
	assert.NilError(t, err)
	assert.Equal(t, task.SpecRef, "a.md")
	show := TaskRequest{Args: []string{"show", "a"}, Attempts: map[string][]string{"a": {"refs/a"}}}
	out, err = connect(t, DoorOptions{Store: s}, false).Task(t.Context(), show)
	assert.NilError(t, err)
	assert.Assert(t, strings.HasSuffix(string(out.Stdout), "Attempts:\n  refs/a\n"))
}

// post sends a request of the loop without a client.
func post(d *Door, method, path, body string, header ...string) (status int, answer string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+d.options.Token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	d := NewDoor(DoorOptions{Store: newStore(t), Token: "secret", Command: "build"})
	for _, tc := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/task", "", http.StatusMethodNotAllowed, "requests are POST"},
		{"POST", "/v2/task", "{}", http.StatusNotFound, "unknown request"},
		{"POST", "/v1/loop/delete", "{}", http.StatusNotFound, `unknown request "delete"`},
		{"POST", "/v1/loop/", "{}", http.StatusNotFound, `unknown request ""`},
		{"POST", "/v1/task", "", http.StatusBadRequest, "reading the request: EOF"},
		{"POST", "/v1/task", "[]", http.StatusBadRequest, "reading the request: json: cannot unmarshal array"},
		{"POST", "/v1/task", `{"id":"1","arg":[]}`, http.StatusBadRequest, `reading the request: json: unknown field "arg"`},
		{"POST", "/v1/task", `{"id":"1"}{}`, http.StatusBadRequest, "reading the request: unexpected data after it"},
		{"POST", "/v1/task", `{"args":["list"]}`, http.StatusBadRequest, "the request needs an ID"},
		{"POST", "/v1/task", `{"id":"` + strings.Repeat("x", maxName+1) + `"}`, http.StatusBadRequest, "the request needs an ID"},
		{"POST", "/v1/task", `{"id":"` + strings.Repeat("x", MaxRequest) + `"}`, http.StatusBadRequest, "reading the request: http: request body too large"},
		{"POST", "/v1/loop/status", "{}", http.StatusBadRequest, "the request needs an ID"},
	} {
		status, answer := post(d, tc.method, tc.path, tc.body)
		assert.Equal(t, status, tc.status, "%s", answer)
		var f failure
		assert.NilError(t, json.Unmarshal([]byte(answer), &f))
		assert.Assert(t, strings.HasPrefix(f.Error, tc.want), f.Error)
	}
}

func TestRepeatedRequestsAreExecutedOnce(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b")
	d := NewDoor(DoorOptions{Store: s, Command: "build", Token: "secret"})
	body := `{"id":"1","args":["claim"],"agent":"me"}`
	_, first := post(d, "POST", "/v1/task", body)
	_, second := post(d, "POST", "/v1/task", body)
	assert.Equal(t, second, first)
	_, third := post(d, "POST", "/v1/task", strings.Replace(body, "1", "2", 1))
	assert.Assert(t, third != first)
	_, registered := post(d, "POST", "/v1/loop/register", "{}", requestHeader, "1")
	_, again := post(d, "POST", "/v1/loop/register", "{}", requestHeader, "1")
	assert.Equal(t, again, registered)
}

func TestConcurrentRequestIsExecutedOnce(t *testing.T) {
	var a answers
	running, finish := make(chan bool), make(chan bool)
	results := make(chan string, 2)
	go func() {
		_, body := a.once("1", func() (int, []byte) { running <- true; <-finish; return 200, []byte("first") })
		results <- string(body)
	}()
	<-running
	go func() {
		_, body := a.once("1", func() (int, []byte) { return 200, []byte("second") })
		results <- string(body)
	}()
	close(finish)
	assert.Equal(t, <-results, "first")
	assert.Equal(t, <-results, "first")
}

func TestAnswersAreForgotten(t *testing.T) {
	var a answers
	request := func(id, body string) string {
		_, answer := a.once(id, func() (int, []byte) { return 200, []byte(body) })
		return string(answer)
	}
	for i := range maxAnswers {
		request(fmt.Sprint(i), "old")
	}
	assert.Equal(t, request("0", "new"), "old")
	request("more", "")
	assert.Equal(t, request("0", "new"), "new")
	large := strings.Repeat("x", maxRemembered)
	request("large", large)
	assert.Equal(t, len(a.all), 1)
	assert.Equal(t, len(request("large", "")), len(large))
}

func TestRequestThatPanicsIsAnswered(t *testing.T) {
	var a answers
	func() {
		defer func() { assert.Equal(t, recover(), "broken") }()
		a.once("1", func() (int, []byte) { panic("broken") })
	}()
	status, _ := a.once("1", nil)
	assert.Equal(t, status, http.StatusInternalServerError)
}

func TestOutputIsLimited(t *testing.T) {
	o := output{left: 3}
	_, err := io.WriteString(&o, "abc")
	assert.NilError(t, err)
	_, err = io.WriteString(&o, "d")
	assert.Error(t, err, "too long")
	status, _ := encode(strings.Repeat("x", maxAnswer))
	assert.Equal(t, status, http.StatusUnprocessableEntity)
}

func TestErrorsDoNotTellWhereTheDatabaseIs(t *testing.T) {
	s := newStore(t)
	c := connect(t, DoorOptions{Store: s}, true)
	_, err := sqlshell.Run(t.Context(), s.Path(), "DROP TABLE tasks")
	assert.NilError(t, err)
	_, err = s.Counts(t.Context())
	assert.ErrorContains(t, err, s.Path())
	const want = "using task database of this worktree: "
	_, err = c.Status(t.Context())
	assert.Assert(t, strings.HasPrefix(err.Error(), want), "%v", err)
	out := runTask(t, c, "", "plan-status")
	assert.Assert(t, strings.HasPrefix(string(out.Stderr), "Error: "+want), "%s", out.Stderr)
}

// The client sends a task command again to the next process on the host.
func TestWaitingTaskCommandIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, fill := range []func(*Door){
		func(d *Door) { d.slots = make(chan struct{}) },
		func(d *Door) { d.running = make(chan struct{}) },
	} {
		d := NewDoor(DoorOptions{Store: newStore(t)})
		fill(d)
		func() {
			defer func() { assert.Equal(t, recover(), http.ErrAbortHandler) }()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, taskPath, strings.NewReader(`{"id":"1","args":["list"]}`))
			d.ServeHTTP(httptest.NewRecorder(), r)
		}()
		assert.Equal(t, len(d.tasks.all), 0)
	}
}

// slowBody is a request that does not arrive completely.
type slowBody struct{ reading, end chan struct{} }

func (b slowBody) Read([]byte) (int, error) {
	b.reading <- struct{}{}
	<-b.end
	return 0, io.EOF
}

// An agent that sends many requests at once has only some of them read, and does not delay its loop.
func TestManyTaskCommands(t *testing.T) {
	d := NewDoor(DoorOptions{Store: newStore(t), Token: "secret", Command: "build"})
	body := slowBody{make(chan struct{}, 3*maxTasks), make(chan struct{})}
	var all sync.WaitGroup
	for range 2 * maxTasks {
		all.Go(func() {
			d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, taskPath, body))
		})
	}
	for range maxTasks {
		<-body.reading
	}
	status, _ := post(d, "POST", "/v1/loop/status", "{}", requestHeader, "1")
	assert.Equal(t, status, http.StatusOK)
	assert.Equal(t, len(body.reading), 0)
	close(body.end)
	all.Wait()
	assert.Equal(t, len(body.reading), maxTasks)
}

// Whatever arrives is answered.
func FuzzDoor(f *testing.F) {
	for name := range operations() {
		f.Add(loopPath+name, []byte(`{"agent":"me","slug":"a","text":"no","options":["x"]}`))
	}
	f.Add(loopPath+"end-run", []byte(`{"run":{"agent":"me","commit":"c0ffee","tasks":["a"],"run":{"n":1,"tasks":["a"],"outcome":"done","commits":1,
		"started":"2026-01-02T03:04:05Z","seconds":1,"exit_code":0,"tokens":{"input":1},"cost_usd":0.5,"refused":[{"host":"x","times":1}],
		"checks":[{"command":"make","seconds":1}]}}}`))
	f.Add(taskPath, []byte(`{"id":"1","args":["claim","a"],"agent":"me","stdin":"e30=","specs":["a.md"],"attempts":{"a":["refs/a"]}}`))
	f.Add(taskPath, []byte(`{"id":"2","args":["plan-sync"],"stdin":"eyJpZCI6ImEiLCJ0IjoiVCJ9"}`))
	f.Add(taskPath, []byte(`{"id":"3","args":[]} x`))
	f.Add(beginPath, []byte(`{}`))
	logs := f.TempDir()
	log, err := runlog.Create(logs, runlog.Loop{Mode: "build", Started: noon, Dispatch: "s1"})
	assert.NilError(f, err)
	for path, body := range logSeeds(log.Loop.ID) {
		f.Add(path, body)
	}
	d := NewDoor(DoorOptions{
		Store: newStore(f), Session: "s1", Command: "plan", Token: "secret", Alive: func(context.Context, string) bool { return false },
		Logs: logs, Event: func(runlog.Event) {},
	})
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.URL.Path = path
		d.loops, d.tasks = answers{}, answers{}
		r.Header.Set(requestHeader, "1")
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		statuses := []int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity}
		assert.Assert(t, slices.Contains(statuses, w.Code), w.Code)
		assert.Assert(t, json.Valid(w.Body.Bytes()))
	})
}

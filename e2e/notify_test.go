//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
)

// Notifications about loops.

// received is what a webhook or a command got.
type received []notify.Notification

// of returns the only notification of an event.
func (r received) of(event string) (notify.Notification, error) {
	var found []notify.Notification
	for _, n := range r {
		if n.Event == event {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return notify.Notification{}, fmt.Errorf("%d notifications of %s in %+v", len(found), event, r)
	}
	return found[0], nil
}

func parseNotifications(t *testing.T, content string) (all received) {
	t.Helper()
	for line := range strings.Lines(content) {
		var n notify.Notification
		assert.NilError(t, json.Unmarshal([]byte(line), &n))
		all = append(all, n)
	}
	return all
}

// webhook starts a server, and returns its URL and a function that returns what it got.
func webhook(t *testing.T) (url string, got func() received) {
	t.Helper()
	var mu sync.Mutex
	var bodies strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&bodies, r.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() received {
		mu.Lock()
		defer mu.Unlock()
		return parseNotifications(t, bodies.String())
	}
}

func TestLoopNotifiesTheUser(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		url, posted := webhook(t)
		out := filepath.Join(w.home, "notifications")
		w.configureUser(t, fmt.Sprintf("[notify]\nwebhook = %q\ncommand = [\"sh\", \"-c\", \"cat >> ~/notifications\"]\n", url+"/?key=hush-hush"))
		w.ignore(t, "begun", "go", "signals")
		w.plan(t, task{ID: "bad", Title: "Cannot work", Steps: []string{"exit 3"}}, task{ID: "slow", Title: "Wait for go", Priority: 2, Steps: slowTask().Steps})
		build := start(t, w.docker("ralph", "build", "--max-failures", "0", "--stall", "0"))
		waitForFile(t, w.pathInside(t, "begun"))
		api, err := client.New(client.WithHost(w.engine.Host))
		assert.NilError(t, err)
		_, err = api.ContainerKill(t.Context(), w.sandbox(t).Name, client.ContainerKillOptions{Signal: "KILL"})
		assert.NilError(t, err)
		w.write(t, w.pathInside(t, "go"), "")
		res := build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, !strings.Contains(res.stderr, "sending notifications"), res.stderr)

		for name, got := range map[string]func() received{
			"webhook": posted,
			"command": func() received {
				content, _ := os.ReadFile(out)
				return parseNotifications(t, string(content))
			},
		} {
			var end notify.Notification
			eventually(t, func() (err error) {
				end, err = got().of(notify.LoopEnded)
				return err
			})
			assert.Equal(t, end.End.ExitCode, res.code, name)
			assert.Check(t, end.End.Stop != "", name)
			assert.Check(t, is.Contains(end.Text, "build of "+w.slug+":main ended: "), name)
			assert.Equal(t, end.Worktree, w.repo)
			blocked, err := got().of(notify.TaskBlocked)
			assert.NilError(t, err)
			assert.DeepEqual(t, blocked.Task, &notify.Task{ID: "bad", Title: "Cannot work"})
			repaired, err := got().of(notify.SandboxRepaired)
			assert.NilError(t, err)
			assert.Check(t, is.Contains(repaired.Reason, w.sandbox(t).Name), name)
		}
	})
}

// A loop in the background ends while its command hangs, which gets the notification
// nevertheless.
func TestHangingNotificationDoesNotDelayTheLoop(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[notify]\ncommand = [\"sh\", \"-c\", \"cat > ~/got && mv ~/got ~/notification; while ! test -e ~/release; do sleep 0.05; done\"]\n")
		w.plan(t, task{ID: "quick", Title: "Be quick", Steps: []string{"true"}})
		w.ok(t, "--detach", "build")
		assert.Equal(t, w.loopEnd(t).ExitCode, 0)
		waitForFile(t, filepath.Join(w.home, "notification"))
		records := filepath.Join(w.config, "ralph", "scopes", w.sandbox(t).Name, "dispatches")
		eventually(t, func() error { // the process of the loop has ended
			left, err := os.ReadDir(records)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("%s still runs", left[0].Name())
			}
			return err
		})
		end, err := parseNotifications(t, w.readFile(t, filepath.Join(w.home, "notification"))).of(notify.LoopEnded)
		assert.NilError(t, err)
		assert.Equal(t, end.End.Stop, "complete")
		w.write(t, filepath.Join(w.home, "release"), "")
	})
}

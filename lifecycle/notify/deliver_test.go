//go:build unix

package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
)

func batchFile(t *testing.T, to config.Notify, texts ...string) string {
	t.Helper()
	b := batch{To: to}
	for _, text := range texts {
		b.Notifications = append(b.Notifications, Notification{Event: TaskBlocked, Text: text})
	}
	content, err := json.Marshal(b)
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), "batch.json")
	assert.NilError(t, os.WriteFile(path, content, 0o600))
	return path
}

// hook is a server for webhooks.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newHook(t *testing.T, answer http.HandlerFunc) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.requests = append(h.requests, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), r.UserAgent(), body))
		h.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// seen returns the requests so far.
func (h *hook) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

func ok(http.ResponseWriter, *http.Request) {}

func TestDeliverToCommandAndWebhook(t *testing.T) {
	t.Parallel()
	h := newHook(t, ok)
	out := filepath.Join(t.TempDir(), "out")
	path := batchFile(t, config.Notify{Command: []string{"sh", "-c", `cat >> "$0"; pwd >> "$0"`, out}, Webhook: h.URL + "/hook?key=1"}, "one", "two $(id)")
	assert.NilError(t, Deliver(t.Context(), path, "docker-ralph/1.2"))
	_, err := os.Lstat(path)
	assert.Assert(t, os.IsNotExist(err), "it has the webhook")

	home, err := os.UserHomeDir()
	assert.NilError(t, err)
	got, err := os.ReadFile(out)
	assert.NilError(t, err)
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	assert.Equal(t, len(lines), 4)
	var first Notification
	assert.NilError(t, json.Unmarshal([]byte(lines[0]), &first))
	assert.Equal(t, first.Text, "one")
	assert.Equal(t, lines[1], home)
	assert.Equal(t, len(h.seen()), 2)
	assert.Check(t, strings.HasPrefix(h.seen()[1], "POST /hook?key=1 application/json docker-ralph/1.2 {"), h.seen()[1])
	assert.Check(t, is.Contains(h.seen()[1], `"text":"two $(id)"`))
}

func TestDeliverReportsFailuresWithoutTheURL(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		to      func(t *testing.T) config.Notify
		message string
	}{
		"status": {func(t *testing.T) config.Notify {
			return config.Notify{Webhook: newHook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }).URL + "/hush"}
		}, ": 403 Forbidden"},
		"redirect": {func(t *testing.T) config.Notify {
			elsewhere := newHook(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
			return config.Notify{Webhook: newHook(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			}).URL + "/hush"}
		}, ": redirected (307 Temporary Redirect)"},
		"nothing listens": {func(t *testing.T) config.Notify {
			h := newHook(t, ok)
			h.Close()
			return config.Notify{Webhook: h.URL + "/hush"}
		}, "connection refused"},
		"exit code": {func(*testing.T) config.Notify {
			return config.Notify{Command: []string{"sh", "-c", "echo no bus >&2; exit 3"}}
		}, "command sh: exit status 3: no bus"},
		"no program": {func(*testing.T) config.Notify {
			return config.Notify{Command: []string{"no-such-program"}}
		}, "no-such-program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Deliver(t.Context(), batchFile(t, tc.to(t), "one"), "")
			assert.ErrorContains(t, err, tc.message)
			assert.Check(t, !strings.Contains(err.Error(), "hush"), err.Error())
		})
	}
}

// A command or server that hangs delays neither the other channel nor the rest for longer than
// the limits.
func TestDeliverLimitsTime(t *testing.T) {
	t.Parallel()
	begun := filepath.Join(t.TempDir(), "begun")
	released := make(chan struct{})
	h := newHook(t, func(http.ResponseWriter, *http.Request) { <-released })
	defer close(released)
	hangs := config.Notify{Command: []string{"sh", "-c", `echo >> "$0"; sleep 1000 & wait`, begun}, Webhook: h.URL}
	err := deliver(t.Context(), batchFile(t, hangs, "one", "two"), "", limits{one: 300 * time.Millisecond, all: time.Minute})
	assert.ErrorContains(t, err, "command sh did not end in time")
	assert.ErrorContains(t, err, "deadline exceeded")
	count, readErr := os.ReadFile(begun)
	assert.NilError(t, readErr)
	assert.Check(t, len(count) <= 2)
	assert.Equal(t, len(h.seen()), 2)

	err = deliver(t.Context(), batchFile(t, hangs, strings.Split(strings.Repeat("x", 100), "")...), "", limits{one: time.Hour, all: 300 * time.Millisecond})
	assert.ErrorContains(t, err, "did not end in time")
}

// Every recipe of the documentation is a valid configuration of the user.
func TestDocumentedRecipesAreValid(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/watching.md")
	assert.NilError(t, err)
	recipes := regexp.MustCompile("(?ms)^```toml\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	assert.Assert(t, len(recipes) > 4)
	for _, recipe := range recipes {
		dir := t.TempDir()
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[notify]\n"+strings.TrimPrefix(recipe[1], "[notify]\n")), 0o600))
		e, err := config.Load(config.Sources{UserDir: dir})
		assert.NilError(t, err)
		assert.Check(t, e.Notify.Enabled(), recipe[1])
	}
}

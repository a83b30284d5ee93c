//go:build unix

package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/config"
)

// deliverEnv makes the test program deliver a file, like the plugin's own command.
const deliverEnv = "NOTIFY_TEST_DELIVER"

func newTestSender(t *testing.T, command ...string) (s *Sender, warnings chan string) {
	t.Helper()
	warnings = make(chan string, 100)
	self, err := os.Executable()
	assert.NilError(t, err)
	s = NewSender(t.Context(), config.Notify{Command: command}, []string{"/usr/bin/env", deliverEnv + "=1", self}, filepath.Join(t.TempDir(), "notify"),
		func(err error) { warnings <- err.Error() })
	return s, warnings
}

// waitForLines waits until a file has that many lines.
func waitForLines(t *testing.T, path string, n int) string {
	t.Helper()
	var content []byte
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		content, _ = os.ReadFile(path)
		if got := strings.Count(string(content), "\n"); got != n {
			return poll.Continue("%d lines", got)
		}
		return poll.Success()
	}, poll.WithTimeout(time.Minute))
	return string(content)
}

func TestSenderDelivers(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	s, warnings := newTestSender(t, "sh", "-c", `cat >> "$0"`, out)
	s.Send(Notification{Text: "one"})
	waitForLines(t, out, 1)
	s.Send(Notification{Text: "two"})
	s.Send(Notification{Text: "three"})
	s.Close()
	content := waitForLines(t, out, 3)
	assert.Check(t, strings.Index(content, "two") < strings.Index(content, "three"), content)
	assert.Equal(t, len(warnings), 0)
	left, err := os.ReadDir(s.dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}

func TestNothingIsSentWithoutConfiguration(t *testing.T) {
	t.Parallel()
	s := NewSender(t.Context(), config.Notify{}, nil, "", nil)
	assert.Assert(t, s == nil)
	s.Send(Notification{})
	s.Close()
	l := Follow(s, Notification{})
	l.Repaired("")
	l.Ended(0, nil)
}

// A hanging command delays no other notification at the end, which the command gets although
// the sender is closed.
func TestHangingCommandDoesNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, release := filepath.Join(dir, "out"), filepath.Join(dir, "release")
	s, _ := newTestSender(t, "sh", "-c", `cat >> "$0"; while [ ! -e "$1" ]; do sleep 0.02; done`, out, release)
	s.Send(Notification{Text: "one"})
	waitForLines(t, out, 1)
	s.Send(Notification{Text: "end"})
	s.Close() // returns while both commands hang
	content := waitForLines(t, out, 2)
	assert.Check(t, is.Contains(content, `"text":"end"`))
	select {
	case <-s.done:
		t.Fatal("the commands did not hang")
	default:
	}
	assert.NilError(t, os.WriteFile(release, nil, 0o600))
	<-s.done
}

func TestSenderWarnsOnce(t *testing.T) {
	t.Parallel()
	s, warnings := newTestSender(t, "sh", "-c", "echo broken >&2; exit 3")
	for range 3 {
		s.Send(Notification{})
	}
	s.Close()
	<-s.done
	assert.Equal(t, len(warnings), 1)
	assert.Equal(t, <-warnings, "sending notifications: command sh: exit status 3: broken")
}

// While a command hangs, old notifications make room for new ones.
func TestFullQueueDropsTheOldest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, release := filepath.Join(dir, "out"), filepath.Join(dir, "release")
	s, warnings := newTestSender(t, "sh", "-c", `cat >> "$0"; while [ ! -e "$1" ]; do sleep 0.02; done`, out, release)
	s.Send(Notification{Text: "first"})
	waitForLines(t, out, 1)
	for i := range queueMax + 5 {
		s.Send(Notification{Text: fmt.Sprintf("n%d.", i)})
	}
	assert.Equal(t, <-warnings, "sending notifications: too many at once: some were dropped")
	assert.NilError(t, os.WriteFile(release, nil, 0o600))
	s.Close()
	content := waitForLines(t, out, queueMax+1)
	assert.Check(t, !strings.Contains(content, "n4."))
	assert.Check(t, is.Contains(content, "n5."))
	assert.Check(t, is.Contains(content, fmt.Sprintf("n%d.", queueMax+4)))
}

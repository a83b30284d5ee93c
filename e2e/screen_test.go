//go:build unix

package e2e

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/screentest"
)

// What a terminal draws, compared with golden files.

// assertScreen compares a terminal's screen, with what has scrolled off at the top, with
// a golden file. What differs between runs is replaced first: names, directories,
// times. Drivers with other messages have their own files.
func (w *world) assertScreen(t *testing.T, sent, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("testdata", "screens", name+"."+w.driver+".golden")); err == nil {
		name += "." + w.driver
	}
	golden.Assert(t, screentest.Render(w.normalize(sent)), filepath.Join("screens", name+".golden"))
}

// normalize replaces what differs between worlds and between runs.
func (w *world) normalize(sent string) string {
	sent = strings.NewReplacer(w.dir, "/home/una", path.Base(w.slug), "shop").Replace(sent)
	for _, r := range []struct{ is, as string }{
		{`\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\b\d{8}-\d{6}\b`, "DATE"},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`, "TIME"},
		{`TIME +`, "TIME  "}, // in columns, too
		{`\bv?[0-9a-f]{7,64}\b`, "HASH"},
		{`(Agent:  |deregistered )[0-9a-f]{4}\b`, "${1}AGENT"},
		{`\b` + w.insideUID() + `\b`, "UID"},
	} {
		sent = regexp.MustCompile(r.is).ReplaceAllString(sent, r.as)
	}
	return sent
}

func TestNormalize(t *testing.T) {
	w := &world{dir: "/tmp/e2e-1/world-2", slug: "e2e/abc", uid: 1234, driver: config.DriverDockerSandbox}
	got := w.normalize("/tmp/e2e-1/world-2/src/abc ralph-e2e-abc-main 1m3.5s   315ms 2026-01-02 03:04:05 20260102-030405 0be7aca 1234 " + strings.Join(slices.Repeat([]string{"0a"}, 32), ""))
	assert.Equal(t, got, "/home/una/src/shop ralph-e2e-shop-main TIME  TIME  DATE DATE HASH UID HASH")
}

// shortPrompt makes the prompt of a shell one that fits into any line: where it
// breaks depends on the length of names, and on when the shell learns how wide the
// terminal is.
const shortPrompt = "PS1='$ '; clear\r"

// types presses keys at the next prompt of a shell, so that they are drawn once. It
// is another prompt than that of the line before, whose end was drawn since, and has
// a line of its own: a part of [shortPrompt] looks like the end of a long one.
func (tm *terminal) types(t *testing.T, keys string) {
	t.Helper()
	var sent string
	eventually(t, func() error {
		sent = tm.screen.String()
		shown := screentest.Render(sent)
		prompted := strings.HasSuffix(shown, "$\n")
		if tm.typed > 0 {
			prompted = strings.HasSuffix("\n"+shown, "\n$\n") && strings.Contains(sent[tm.typed:], "\n")
		}
		if !prompted {
			return errors.New("no prompt: " + shown)
		}
		return nil
	})
	tm.typed = len(sent)
	tm.press(t, keys)
}

// dialogue runs a command at a terminal and answers what it asks.
func (w *world) dialogue(t *testing.T, args string, dialogue ...string) result {
	t.Helper()
	tm := w.shell(t, args)
	tm.answer(t, dialogue...)
	return tm.wait(t)
}

// answer waits for questions and answers them, by turns.
func (tm *terminal) answer(t *testing.T, dialogue ...string) {
	t.Helper()
	for i := 0; i < len(dialogue); i += 2 {
		tm.screen.WaitFor(t, dialogue[i])
		tm.press(t, dialogue[i+1]+"\r")
	}
}

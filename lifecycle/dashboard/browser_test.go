package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// browser returns the program of the headless browser. In CI there must be one.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("RALPH_TEST_BROWSER"), "chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no browser: run scripts/browser.sh")
	}
	t.Skip("no browser: run scripts/browser.sh")
	return ""
}

// tab is a page in the browser.
type tab struct {
	t       *testing.T
	ctx     context.Context
	console *[]string
	// expected is part of a message that the browser prints.
	expected *string
}

// look is how the browser shows a page.
type look struct {
	name          string
	width, height int64
	dark          bool
}

func looks() []look {
	return []look{
		{"desktop", 1280, 900, false},
		{"desktop-dark", 1280, 900, true},
		{"phone", 360, 780, false},
		{"phone-dark", 360, 780, true},
	}
}

func openTab(t *testing.T, address string, l look) tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	allocated, cancelBrowser := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(func() { cancel(); cancelBrowser() })
	tt := tab{t: t, ctx: ctx, console: &[]string{}, expected: new(string)}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	messages := chromedp.Console(ctx)
	assert.NilError(t, chromedp.Do(ctx, chromedp.EmulateViewport(l.width, l.height)))
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	assert.NilError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range messages {
			if err != nil {
				return
			}
			*tt.console = append(*tt.console, m.String())
		}
	}()
	t.Cleanup(func() { // before the browser is closed
		cancel()
		<-done
		for _, message := range *tt.console {
			assert.Check(t, *tt.expected != "" && strings.Contains(message, *tt.expected), "the console has a message: %s", message)
		}
	})
	assert.NilError(t, chromedp.Do(ctx, chromedp.Navigate(address)))
	return tt
}

// wait waits until an expression is true.
func (b tab) wait(expression string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingInterval(50*time.Millisecond)))
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText.slice(0, 3000)"))
		b.t.Fatalf("waiting for %s: %v\npage:\n%s", expression, err, text)
	}
}

func eval[T any](b tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	assert.NilError(b.t, err, "%s", expression)
	return value
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	assert.NilError(b.t, chromedp.Do(b.ctx, steps...))
}

// view opens a view of the page.
func (b tab) view(name string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS("#tab-" + name)))
	b.wait(fmt.Sprintf("!document.getElementById(%q).hidden && document.getElementById(%[1]q).childElementCount", name))
}

// screenshot saves a picture of the page for a look by eye in the directory RALPH_TEST_SCREENSHOTS.
func (b tab) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("RALPH_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	assert.NilError(b.t, err)
	assert.NilError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// serve serves a source and returns the URL with its token.
func serve(t *testing.T, s *source) string {
	t.Helper()
	server := httptest.NewServer(newHandler(t.Context(), s, "secret"))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL + "/#token=secret"
}

// reportFile writes a report and returns its URL.
func reportFile(t *testing.T, s *source) string {
	t.Helper()
	var out bytes.Buffer
	s.host.Stdout = &out
	assert.NilError(t, s.writeReport(t.Context(), "-"))
	path := filepath.Join(t.TempDir(), "report.html")
	assert.NilError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// overflow returns what is wider than the page, unless it scrolls by itself.
const overflow = `[document.documentElement.scrollWidth > innerWidth && 'page',
	...[...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && !e.closest('.hidden, svg, .scroll, .tabs') && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.tagName + '.' + e.className)].filter(Boolean)`

func TestPageFitsEveryScreen(t *testing.T) {
	d := newDemo(t)
	d.fill()
	for _, l := range looks() {
		t.Run(l.name, func(t *testing.T) {
			for source, address := range map[string]string{"served": serve(t, d.source()), "report": reportFile(t, d.source())} {
				b := openTab(t, address, l)
				b.wait("document.querySelectorAll('#board .task').length === 13")
				for _, view := range []string{"board", "runs", "charts", "output"} {
					b.view(view)
					if view == "runs" {
						b.do(chromedp.Click(chromedp.CSS("#run-2 summary")), chromedp.Click(chromedp.CSS("#diff-2")))
						b.wait("document.querySelector('#run-2 .file .added')")
					}
					b.screenshot(strings.Join([]string{l.name, source, view}, "-"))
					assert.Check(t, is.DeepEqual(eval[[]string](b, overflow), []string{}), "%s, %s", source, view)
				}
			}
		})
	}
}

func TestPageShowsARunningLoop(t *testing.T) {
	d := newDemo(t)
	d.fill()
	b := openTab(t, serve(t, d.source()), looks()[0])
	b.wait("document.querySelectorAll('#board .task').length === 13")
	assert.Equal(t, eval[string](b, "location.hash.includes('token')+''"), "false")
	columns := `Object.fromEntries([...document.querySelectorAll('.column')].map((c) => [c.querySelector('h2').textContent.replace(/ .*/, ''), [...c.querySelectorAll('.task .meta code')].map((e) => e.textContent).sort().join(' ')]))`
	assert.DeepEqual(t, eval[map[string]string](b, columns), map[string]string{
		"Open": "mail/02 ops/01 web/04", "Active": "mail/01", "Question": "pay/01", "Blocked": "db/01",
		"Done": "api/00 api/01 api/02 api/03 web/01 web/02 web/03",
	})
	assert.Check(t, is.Contains(eval[string](b, "document.getElementById('head').innerText"), "Working"))
	assert.Check(t, is.Contains(eval[string](b, "document.getElementById('head').innerText"), "Tokens: 4.9M of 6M used"))
	assert.Check(t, is.Contains(eval[string](b, "document.getElementById('tiles').innerText"), "$7.67"))
	b.view("output")
	b.wait("document.getElementById('output-text').textContent.includes('$ go build')")
	assert.Check(t, !eval[bool](b, `document.getElementById('output-text').textContent.includes('\u001b')`))

	// News arrive without a reload.
	log := filepath.Join(d.logs("main"), d.running)
	appendFile(t, filepath.Join(log, "10.log"), "one more line\n")
	b.wait("document.getElementById('output-text').textContent.includes('one more line')")
	b.view("board")
	change := `{"time":"` + time.Now().UTC().Format(time.RFC3339) + `","type":"task","n":10,"id":"mail/01","title":"Send a receipt by mail","status":"`
	appendFile(t, filepath.Join(log, "events.jsonl"), change+`finished"}`+"\n")
	b.wait("document.querySelector('.column.active .task .note')?.textContent.startsWith('Finished')")
	appendFile(t, filepath.Join(log, "events.jsonl"), change+`done"}`+"\n")
	b.wait("document.querySelector('.column.done .task .meta code').textContent === 'mail/01'")

	// The clock of the sandbox is ahead.
	b.view("charts")
	appendFile(t, filepath.Join(log, "events.jsonl"), `{"time":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`","type":"task","n":10,"id":"mail/03","title":"Next","status":"done"}`+"\n")
	b.wait("document.querySelector('.column.done').textContent.includes('mail/03')")
	b.wait("(({x, width}) => width > 0 && x + width <= 553)(document.querySelector('#charts .line').getBBox())")

	// The next run has printed nothing.
	b.view("output")
	b.wait("document.getElementById('output-note').textContent.startsWith('Run 10, live')")
	d.write(filepath.Join(log, "now.json"), `{"n":11,"state":"working"}`)
	b.wait("document.getElementById('output-note').textContent.startsWith('Run 11, live')")
}

func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	assert.NilError(t, err)
	_, err = f.WriteString(text)
	assert.NilError(t, err)
	assert.NilError(t, f.Close())
}

func TestPageIsUsedWithAKeyboard(t *testing.T) {
	d := newDemo(t)
	d.fill()
	b := openTab(t, serve(t, d.source()), looks()[0])
	b.wait("document.querySelectorAll('#board .task').length === 13")
	focused := "document.activeElement.id"
	b.do(chromedp.KeyEvent("\t"))
	assert.Equal(t, eval[string](b, "document.activeElement.className"), "skip")
	b.do(chromedp.Focus(chromedp.CSS("#tab-board")), chromedp.KeyEvent("\u0303")) // arrow right
	assert.Equal(t, eval[string](b, focused), "tab-runs")
	assert.Check(t, eval[bool](b, "document.getElementById('board').hidden"))
	b.do(chromedp.Focus(chromedp.CSS("#run-3 summary")), chromedp.KeyEvent("\r"))
	b.wait("document.querySelector('#run-3 details').open")
	b.do(chromedp.KeyEvent("/"))
	assert.Equal(t, eval[string](b, focused), "query")
	b.do(chromedp.KeyEvent("\b" + "receipt")) // chromedp types the slash too
	b.wait("document.querySelectorAll('#results section').length === 3")
	assert.Check(t, is.Contains(eval[string](b, "document.getElementById('results').innerText"), "Write mail/receipt.go"))
	assert.Check(t, is.Contains(eval[string](b, "document.getElementById('results').innerText"), "Send a receipt by mail"))
	b.screenshot("search")
	b.do(chromedp.KeyEvent("\u001b"))
	b.wait("document.getElementById('results').hidden && !document.getElementById('views').hidden")
}

func TestPageShowsHostileTextAsText(t *testing.T) {
	const hostile = `</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>` + "\x1b]0;title\x07\u2028"
	d := newDemo(t)
	l := d.newLog("main", time.Now().Add(-time.Hour))
	l.loop.Agent, l.loop.Summary, l.loop.Error = hostile, hostile, hostile
	l.emit(0, &runlog.LoopStart{Mode: hostile, Agent: hostile})
	l.emit(0, &runlog.RunStart{N: 1, Commit: hostile})
	l.emit(0, &runlog.TaskChange{N: 1, ID: "__proto__", Title: hostile, Status: "open", Reason: hostile})
	l.emit(0, &runlog.TaskChange{N: 1, ID: hostile, Title: strings.Repeat("W", 5000), Status: "blocked", Reason: hostile})
	l.emit(0, &runlog.Question{ID: "q", Title: hostile, Question: hostile, Options: []string{hostile}})
	l.emit(0, &runlog.RunEnd{Iteration: runlog.Iteration{
		N: 1, Tasks: []string{hostile}, Outcome: hostile, Reason: hostile, Commit: hostile, Commits: 1, Seconds: -1e308, Model: hostile,
		Checks: []runlog.Check{{Command: hostile, Failure: hostile}},
	}})
	l.emit(0, &runlog.RunStart{N: 1 << 40})
	l.output(1, hostile+"\n")
	l.loop.Ended = l.time
	l.save(runlog.Now{N: 1, Title: hostile, Text: hostile})
	d.backlog(row("constructor", hostile, "open", 1))
	for name, address := range map[string]string{"served": serve(t, d.source()), "report": reportFile(t, d.source())} {
		b := openTab(t, address, looks()[2])
		b.wait("document.querySelectorAll('#board .task').length === 4")
		for _, view := range []string{"board", "charts", "output", "runs"} {
			b.view(view)
			assert.Check(t, is.DeepEqual(eval[[]string](b, overflow), []string{}), "%s, %s", name, view)
		}
		for _, id := range []string{"#run-1 summary", "#diff-1"} { // not with the mouse: the title is higher than the window
			eval[bool](b, "document.querySelector('"+id+"').click() ?? true")
		}
		b.wait("document.querySelector('#run-1 [role=alert]')")
		*b.expected = "404"
		assert.Check(t, eval[bool](b, "window.hacked === undefined && document.querySelector('main img, main script') === null"))
		assert.Check(t, is.Contains(eval[string](b, "document.body.textContent"), `<img src=x onerror="window.hacked=1">`))
	}
}

// Names in events that are properties of every object in JavaScript.
func TestPageShowsNamesOfObjectProperties(t *testing.T) {
	for _, name := range []string{"constructor", "__proto__", "toString"} {
		d := newDemo(t)
		l := d.newLog("main", time.Now().Add(-time.Hour))
		d.running = l.loop.ID
		l.emit(0, &runlog.LoopStart{Mode: name, Agent: name})
		l.emit(0, &runlog.RunStart{N: 1})
		l.emit(0, &runlog.TaskChange{N: 1, ID: name, Title: name, Status: name})
		l.emit(0, &runlog.TaskChange{N: 1, ID: "shown", Status: "open"})
		l.emit(0, &runlog.LimitNear{N: 1, Name: name, Used: 1, Limit: 2})
		l.emit(0, &runlog.State{N: 1, State: runlog.LoopState(name)})
		l.save(runlog.Now{N: 1, State: runlog.LoopState(name)})
		for source, address := range map[string]string{"served": serve(t, d.source()), "report": reportFile(t, d.source())} {
			b := openTab(t, address, looks()[0])
			b.wait("document.querySelectorAll('#board .task').length === 1")
			b.wait(fmt.Sprintf("document.getElementById('head').innerText.includes('%s: 1 of 2 used')", name))
			assert.Check(t, is.Equal(eval[string](b, "document.querySelector('#head .badge').className"), "badge running"), "%s, %s", source, name)
		}
	}
}

func TestPageAsksForAToken(t *testing.T) {
	d := newDemo(t)
	d.fill()
	address, _, _ := strings.Cut(serve(t, d.source()), "#")
	b := openTab(t, address, looks()[0])
	b.wait("document.getElementById('token')")
	assert.Equal(t, eval[int](b, "document.querySelectorAll('.task').length"), 0)
	b.do(chromedp.Focus(chromedp.CSS("#token")), chromedp.KeyEvent(address+"#token=secret\r"))
	b.wait("document.querySelectorAll('#board .task').length === 13")
	*b.expected = "401"
}

package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// request returns the response to a request with the token, which change can change.
func request(t *testing.T, h http.Handler, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	r.Header.Set("Authorization", "Bearer secret")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestServerRequiresTheToken(t *testing.T) {
	t.Parallel()
	h := newHandler(t.Context(), newDemo(t).source(), "secret")
	for _, path := range []string{"/api/stream?loop=x", "/api/output?loop=x&run=1", "/api/diff?loop=x&run=1", "/api/search?loop=x&q=a"} {
		for _, token := range []string{"", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets"} {
			r := request(t, h, path, func(r *http.Request) { r.Header.Set("Authorization", token) })
			assert.Check(t, is.Equal(r.Code, http.StatusUnauthorized), "%s with %q", path, token)
		}
		r := request(t, h, path+"&token=secret", func(r *http.Request) { r.Header.Del("Authorization") })
		assert.Check(t, is.Equal(r.Code, http.StatusUnauthorized), "%s with the token in the URL", path)
	}
	r := request(t, h, "/api/search?loop=x&q=a", nil)
	assert.Equal(t, r.Code, http.StatusNotFound)
}

func TestServerRejectsNamesOfOtherHosts(t *testing.T) {
	t.Parallel()
	h := newHandler(t.Context(), newDemo(t).source(), "secret")
	for name, want := range map[string]int{
		"127.0.0.1:8080": http.StatusOK, "localhost:9000": http.StatusOK, "[::1]:8080": http.StatusOK, "localhost": http.StatusOK,
		"rebound.example.com:8080": http.StatusMisdirectedRequest, "localhost.example.com": http.StatusMisdirectedRequest,
		"0.0.0.0:8080": http.StatusMisdirectedRequest, "192.168.1.2:8080": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/main.js"} {
			r := request(t, h, path, func(r *http.Request) { r.Host = name })
			assert.Check(t, is.Equal(r.Code, want), "%s of %q", path, name)
		}
	}
}

func TestServerListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, address := range []string{":0", "0.0.0.0:0", "192.168.1.2:0", "[::]:0", "example.com:0"} {
		_, err := listen(t.Context(), address)
		assert.ErrorContains(t, err, "not a loopback address", address)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := listen(t.Context(), address)
		assert.NilError(t, err)
		assert.Check(t, strings.HasPrefix(l.Addr().String(), "127.0.0.1:"))
		assert.NilError(t, l.Close())
	}
}

func TestServerSetsItsPolicy(t *testing.T) {
	t.Parallel()
	h := newHandler(t.Context(), newDemo(t).source(), "secret")
	for _, path := range []string{"/", "/main.js", "/style.css", "/missing", "/api/search?loop=x&q=a"} {
		r := request(t, h, path, nil)
		policy := r.Header().Get("Content-Security-Policy")
		assert.Check(t, is.Contains(policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"), path)
		assert.Check(t, !strings.Contains(policy, "unsafe"), path)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			assert.Check(t, is.Equal(r.Header().Get(name), want), "%s of %s", name, path)
		}
	}
	r := request(t, h, "/", func(r *http.Request) { r.Method = http.MethodPost })
	assert.Equal(t, r.Code, http.StatusMethodNotAllowed)
}

func TestServePrintsItsURLOnce(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	var out buffer
	d.host.Stdout, d.host.Stderr = &out, io.Discard
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, d.host, ServeOptions{Listen: "127.0.0.1:0"}) }()
	var address *url.URL
	for address == nil {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
		if text := out.String(); strings.HasSuffix(text, "\n") {
			var err error
			address, err = url.Parse(strings.TrimSpace(text))
			assert.NilError(t, err)
		}
	}
	token, found := strings.CutPrefix(address.Fragment, "token=")
	assert.Assert(t, found && len(token) >= 26, "%s", address)
	address.Fragment, address.Path = "", "/api/search"
	address.RawQuery = "loop=x"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	assert.NilError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	assert.NilError(t, err)
	assert.NilError(t, answer.Body.Close())
	assert.Equal(t, answer.StatusCode, http.StatusNotFound)
	cancel()
	assert.NilError(t, <-done)
	assert.Equal(t, strings.Count(out.String(), "\n"), 1)
}

// buffer is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// events reads server-sent events of a loop until stop returns true.
func events(t *testing.T, s *source, loop string, stop func(name, data string) bool) {
	t.Helper()
	server := httptest.NewServer(newHandler(t.Context(), s, "secret"))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/stream?loop="+loop, nil)
	assert.NilError(t, err)
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := server.Client().Do(r)
	assert.NilError(t, err)
	defer func() { _ = answer.Body.Close() }()
	assert.Equal(t, answer.Header.Get("Content-Type"), "text/event-stream")
	lines := bufio.NewReader(answer.Body)
	name := ""
	for {
		line, err := lines.ReadString('\n')
		assert.NilError(t, err)
		if value, found := strings.CutPrefix(line, "event: "); found {
			name = strings.TrimSpace(value)
		}
		if data, found := strings.CutPrefix(line, "data: "); found && stop(name, data) {
			cancel()
			return
		}
	}
}

func loopKey(t *testing.T, s *source) string {
	t.Helper()
	state, err := s.State(t.Context())
	assert.NilError(t, err)
	return state.Worktrees[0].Loops[0].Key
}

func TestStreamSendsEventsAsInTheLog(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	s := d.source()
	log := filepath.Join(d.logs("main"), d.running, "events.jsonl")
	want, err := os.ReadFile(log)
	assert.NilError(t, err)
	seen := map[string]int{}
	var got []string
	last := `{"time":"2026-11-24T04:00:00Z","type":"state","n":10,"state":"checking","text":"go test"}`
	events(t, s, loopKey(t, s), func(name, data string) bool {
		if seen[name]++; name != "events" {
			return false
		}
		var list []json.RawMessage
		assert.NilError(t, json.Unmarshal([]byte(data), &list))
		if len(got) == 0 {
			appendFile(t, log, "{\"not\": \"an event\"}\n"+last+"\n")
		}
		for _, e := range list {
			got = append(got, string(e))
		}
		return got[len(got)-1] == last
	})
	assert.DeepEqual(t, got, append(strings.Split(strings.TrimSpace(string(want)), "\n"), last))
	assert.Check(t, seen["state"] > 0 && seen["backlog"] == 1, "%v", seen)
}

// An agent can write any log, of any size.
func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	dir := filepath.Join(d.logs("main"), d.running)
	appendFile(t, filepath.Join(dir, "10.log"), strings.Repeat("\x1b[31mx\x1b]0;title\x07\n", 200_000))
	appendFile(t, filepath.Join(dir, "events.jsonl"), strings.Repeat("x", 3<<20)+"\n")
	s := d.source()
	events(t, s, loopKey(t, s), func(name, data string) bool {
		assert.Assert(t, len(data) <= 2<<20, "%s has %d bytes", name, len(data))
		assert.Assert(t, !strings.Contains(data, `\u001b`))
		var out output
		return name == "output" && json.Unmarshal([]byte(data), &out) == nil && out.Skipped && len(out.Text) <= maxOutput
	})

	server := httptest.NewServer(newHandler(t.Context(), s, "secret"))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func() int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/stream", nil)
		assert.NilError(t, err)
		r.Header.Set("Authorization", "Bearer secret")
		answer, err := server.Client().Do(r) //nolint:bodyclose // the context closes it
		assert.NilError(t, err)
		return answer.StatusCode
	}
	for range maxStreams {
		assert.Equal(t, open(), http.StatusOK)
	}
	assert.Equal(t, open(), http.StatusServiceUnavailable)
	cancel()
}

func TestOutputFollowsNoLinks(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	secret := filepath.Join(t.TempDir(), "secret")
	d.write(secret, "password")
	assert.NilError(t, os.Symlink(secret, filepath.Join(d.logs("main"), d.running, "11.log")))
	s := d.source()
	h := newHandler(t.Context(), s, "secret")
	for _, path := range []string{"/api/output?run=11&loop=" + loopKey(t, s), "/api/output?run=1&loop=../../etc/passwd", "/api/output?run=-1&loop=" + loopKey(t, s)} {
		r := request(t, h, path, nil)
		assert.Check(t, r.Code >= 400 && !strings.Contains(r.Body.String(), "password"), "%s: %s", path, r.Body)
	}
}

func TestSearchFindsLinesOfOutput(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	s := d.source()
	h := newHandler(t.Context(), s, "secret")
	body := request(t, h, "/api/search?q=MAIL%2Freceipt&loop="+loopKey(t, s), nil).Body.String()
	var found []watch.Match
	assert.NilError(t, json.Unmarshal([]byte(body), &found))
	assert.DeepEqual(t, found, []watch.Match{{Run: 10, Line: 4, Text: "● Write mail/receipt.go"}})
	body = request(t, h, "/api/search?q=nowhere&loop="+loopKey(t, s), nil).Body.String()
	assert.Equal(t, strings.TrimSpace(body), "[]")
	appendFile(t, filepath.Join(d.logs("main"), d.running, "10.log"), strings.Repeat("many\n", 1000))
	body = request(t, h, "/api/search?q=many&loop="+loopKey(t, s), nil).Body.String()
	assert.NilError(t, json.Unmarshal([]byte(body), &found))
	assert.Equal(t, len(found), maxMatches)
}

func TestDiffShowsFetchedCommitsOnly(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	base := d.git("rev-parse", "HEAD")
	head := d.commit("api/list.go", "package api\n")
	d.git("checkout", "--quiet", "-b", "private")
	private := d.commit("secret.txt", "password\n")
	d.git("checkout", "--quiet", "main")
	d.git("checkout", "--quiet", "-b", "in-sandbox")
	fetched := d.commit("fetched.txt", "from the sandbox\n")
	d.git("checkout", "--quiet", "main")
	d.git("update-ref", "refs/ralph/ralph-acme-shop-main/main", fetched)
	w := watch.Worktree{Root: d.root, Repo: "acme/shop", Branch: "main"}
	for name, tc := range map[string]struct{ base, head, want string }{
		"on the branch":           {base, head, "+package api"},
		"by number of commits":    {head + "~1", head, "+package api"},
		"fetched":                 {head, fetched, "+from the sandbox"},
		"of another branch":       {base, private, ""},
		"backwards":               {head, base, ""},
		"from another branch":     {private, fetched, ""},
		"a branch":                {base, "private", ""},
		"an option":               {"--output=x", head, ""},
		"missing":                 {base, strings.Repeat("0", 40), ""},
		"no commit":               {base, "", ""},
		"more commits than exist": {head + "~999", head, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := diffOf(t.Context(), w, tc.base, tc.head)
			if tc.want == "" {
				assert.Assert(t, err != nil)
				assert.Assert(t, !strings.Contains(got.Text, "password"))
				return
			}
			assert.NilError(t, err)
			assert.Check(t, is.Contains(got.Text, tc.want))
		})
	}
}

// Programs of an agent in the worktree, or in its attributes, do not run.
func TestDiffRunsNoProgram(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	base := d.git("rev-parse", "HEAD")
	hacked := filepath.Join(t.TempDir(), "hacked")
	d.git("config", "diff.external", "touch "+hacked)
	d.git("config", "diff.evil.textconv", "touch "+hacked+"; cat")
	d.git("config", "diff.evil.command", "touch "+hacked)
	d.git("config", "core.pager", "touch "+hacked)
	d.write(filepath.Join(d.root, ".gitattributes"), "* diff=evil filter=evil\n")
	head := d.commit("a.txt", "text\n")
	got, err := diffOf(t.Context(), watch.Worktree{Root: d.root, Repo: "acme/shop", Branch: "main"}, base, head)
	assert.NilError(t, err)
	assert.Check(t, is.Contains(got.Text, "+text"))
	_, err = os.Stat(hacked)
	assert.Check(t, os.IsNotExist(err))
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	base := d.git("rev-parse", "HEAD")
	head := d.commit("big.txt", strings.Repeat("a long line of text\n", 100_000))
	got, err := diffOf(t.Context(), watch.Worktree{Root: d.root, Repo: "acme/shop", Branch: "main"}, base, head)
	assert.NilError(t, err)
	assert.Check(t, got.Truncated && len(got.Text) <= maxDiff)
}

// The report of a log that an agent has written must not contain markup of it.
func TestReportEncodesItsData(t *testing.T) {
	t.Parallel()
	content, err := standalone(map[string]string{"title": "</script><script>alert(1)</script><!--"})
	assert.NilError(t, err)
	assert.Equal(t, strings.Count(string(content), "<script"), 2)
	assert.Equal(t, strings.Count(string(content), "</script>"), 2)
	assert.Check(t, !strings.Contains(string(content), "<!--"))
	assert.Check(t, is.Contains(string(content), `"\u003c/script\u003e`))
	assert.Check(t, is.Contains(string(content), `content="default-src 'none'; script-src 'sha256-`))
	assert.Check(t, !regexp.MustCompile(`(?m)^(import|export) `).Match(content))
}

func TestReportWorksWithoutASandbox(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	var warnings bytes.Buffer
	d.host.Stderr = &warnings
	assert.NilError(t, Report(t.Context(), d.host, ReportOptions{File: "report.html"}))
	content, err := os.ReadFile(filepath.Join(d.root, "report.html"))
	assert.NilError(t, err)
	for _, want := range []string{"Send a receipt by mail", "Write mail/receipt.go", "+module shop", "Deploy to staging"} {
		assert.Check(t, is.Contains(string(content), want))
	}
	assert.Equal(t, warnings.String(), "Wrote the report to report.html\n")
	assert.ErrorContains(t, Report(t.Context(), d.host, ReportOptions{File: "missing/report.html"}), "writing the report")
}

// The default file is in nobody's way: no uncommitted change, in no directory.
func TestDefaultReportIsIgnoredByGit(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.fill()
	status := d.git("status", "--porcelain")
	sub := filepath.Join(d.root, "sub")
	assert.NilError(t, os.Mkdir(sub, 0o700))
	var said bytes.Buffer
	for _, dir := range []string{d.root, sub} {
		d.host.Stderr, d.host.Dir = &said, dir
		assert.NilError(t, Report(t.Context(), d.host, ReportOptions{File: DefaultReport}))
		_, err := os.Stat(filepath.Join(dir, "ralph-report.html"))
		assert.NilError(t, err)
	}
	assert.Equal(t, d.git("status", "--porcelain"), status)
	assert.Equal(t, said.String(), "Wrote the report to ralph-report.html\nGit ignores ralph-report.html now (info/exclude)\nWrote the report to ralph-report.html\n")

	said.Reset()
	d.host.Dir = t.TempDir()
	assert.NilError(t, Report(t.Context(), d.host, ReportOptions{File: DefaultReport, All: true}))
	assert.Equal(t, said.String(), "Wrote the report to ralph-report.html\n")
}

// No part of the page can make markup or code of a text.
func TestPageMakesNoMarkup(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:|createContextualFragment|DOMParser|\.style\b|style=|https?://(?:www\.w3\.org)?`)
	for _, name := range append(modules(), "index.html") {
		for _, found := range forbidden.FindAllString(asset(name), -1) {
			assert.Check(t, found == "http://www.w3.org", "%s has %s", name, found)
		}
	}
}

func TestCommitsOfRun(t *testing.T) {
	t.Parallel()
	list := []runlog.Event{
		{Data: &runlog.RunStart{N: 1, Commit: "a"}},
		{Data: &runlog.RunEnd{Iteration: runlog.Iteration{N: 1, Commit: "b", Commits: 1}}},
		{Data: &runlog.RunEnd{Iteration: runlog.Iteration{N: 2, Commit: "c", Commits: 2}}},
		{Data: &runlog.RunStart{N: 3, Commit: "c"}},
	}
	for run, want := range map[int][2]string{1: {"a", "b"}, 2: {"c~2", "c"}, 3: {}, 4: {}} {
		base, head := runlog.CommitsOf(list, run)
		assert.Check(t, is.DeepEqual([2]string{base, head}, want), run)
	}
}

package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// ServeOptions are the options of [Serve].
type ServeOptions struct {
	// Listen is a loopback address with a port; port 0 is a free one.
	Listen string
	// All shows the sandboxes of this machine instead of this repository.
	All bool
}

// Serve serves the dashboard until the context ends. It prints its URL, with a token that is valid
// for this server only. The token is in the fragment of the URL: browsers send fragments neither to
// servers nor as a referrer, unlike cookies, which other ports of this machine would receive.
func Serve(ctx context.Context, h host.Host, opts ServeOptions) error {
	s := newSource(h, opts.All)
	if _, err := s.State(ctx); err != nil {
		return err
	}
	listener, err := listen(ctx, opts.Listen)
	if err != nil {
		return err
	}
	token := rand.Text()
	server := &http.Server{
		Handler: newHandler(ctx, s, token), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if _, err := fmt.Fprintf(h.Stdout, "http://%s/#token=%s\n", listener.Addr(), token); err != nil {
		return errors.Join(err, listener.Close())
	}
	h.Report("Open this URL in a browser on this machine. Press Ctrl+C to stop.")
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the dashboard: %w", err)
	}
	return nil
}

// listen listens on a loopback address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("parsing the address %q: %w", address, err)
	}
	if !loopback(name) {
		return nil, hint.Wrap(fmt.Errorf("refusing to listen on %q: not a loopback address", address),
			"use 127.0.0.1:PORT, and from another machine %q", "ssh -L PORT:127.0.0.1:PORT HOST")
	}
	if name == "localhost" {
		name = "127.0.0.1"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(name, port))
	if err != nil {
		return nil, fmt.Errorf("serving the dashboard: %w", err)
	}
	return listener, nil
}

// loopback reports whether a host name can only be this machine.
func loopback(name string) bool {
	address, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return name == "localhost" || err == nil && address.IsLoopback()
}

// maxStreams bounds the number of open pages.
const maxStreams = 16

type handler struct {
	*source
	token   [sha256.Size]byte
	streams chan struct{}
}

// newHandler returns the handler of the server.
func newHandler(ctx context.Context, s *source, token string) http.Handler {
	h := &handler{source: s, token: sha256.Sum256([]byte(token)), streams: make(chan struct{}, maxStreams)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", static("index.html", "text/html; charset=utf-8"))
	mux.HandleFunc("GET /style.css", static("style.css", "text/css; charset=utf-8"))
	for _, name := range modules() {
		mux.HandleFunc("GET /"+name, static(name, "text/javascript; charset=utf-8"))
	}
	mux.Handle("GET /api/stream", h.private(h.stream))
	mux.Handle("GET /api/output", h.private(answer(h.output)))
	mux.Handle("GET /api/diff", h.private(answer(h.diff)))
	mux.Handle("GET /api/search", h.private(answer(h.search)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		// A page of another site can make its name resolve to this machine: then it names itself here.
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		if !loopback(name) {
			http.Error(w, "this server answers on loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		if ctx.Err() == nil {
			mux.ServeHTTP(w, r)
		}
	})
}

// secure sets the headers of every response.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func static(name, kind string) http.HandlerFunc {
	content := asset(name)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(content))
	}
}

// private requires the token.
func (h *handler) private(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(sum[:], h.token[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "invalid token: open the URL that docker ralph serve printed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
}

// answer writes a result as JSON.
func answer(get func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := get(r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(status(err))
			result = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(result) // the page may be closed
	}
}

func status(err error) int {
	for _, missing := range []error{watch.ErrNotFound, errNotFetched, errNoCommits} {
		if errors.Is(err, missing) {
			return http.StatusNotFound
		}
	}
	return http.StatusInternalServerError
}

// runOf opens the loop of a request, and returns its run.
func (h *handler) runOf(r *http.Request) (loop, int, error) {
	run, err := strconv.Atoi(r.FormValue("run"))
	if err != nil || run < 0 {
		return loop{}, 0, watch.ErrNotFound
	}
	l, err := h.open(r.Context(), r.FormValue("loop"))
	return l, run, err
}

func (h *handler) output(r *http.Request) (any, error) {
	l, run, err := h.runOf(r)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return outputOf(l, run, maxOutput)
}

func (h *handler) diff(r *http.Request) (any, error) {
	l, run, err := h.runOf(r)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	events, _, err := l.NewestEvents(maxEvents)
	if err != nil {
		return nil, err
	}
	base, head := runlog.CommitsOf(events, run)
	return diffOf(r.Context(), l.worktree, base, head)
}

func (h *handler) search(r *http.Request) (any, error) {
	text := strings.TrimSpace(r.FormValue("q"))
	l, err := h.open(r.Context(), r.FormValue("loop"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if text == "" {
		return []watch.Match{}, nil
	}
	events, _, err := l.NewestEvents(maxEvents)
	if err != nil {
		return nil, err
	}
	found, err := l.Search(r.Context(), text, watch.Runs(events), maxMatches)
	return append([]watch.Match{}, found...), err // "null" is no list
}

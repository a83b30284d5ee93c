package drivertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Result is how one check of the suite went.
type Result struct {
	Check  string        `json:"check"`
	OK     bool          `json:"ok"`
	Failed string        `json:"failed,omitempty"` // what was not as it should be
	Took   time.Duration `json:"took_ns"`
}

// Report runs the suite outside of a test. report is called after each check.
// It ends early when ctx does.
func (s Suite) Report(ctx context.Context, report func(Result)) {
	root := &run{ctx: ctx, report: report}
	root.do(s.Run)
}

// run is a [T] that collects what went wrong instead of failing a test.
type run struct {
	ctx      context.Context //nolint:containedctx // as that of a test
	path     []string
	report   func(Result)
	cleanups []func()
	failed   []string
	parts    bool // it was made of parts, which were reported themselves
}

var _ T = (*run)(nil)

func (r *run) Context() context.Context { return r.ctx }
func (r *run) Name() string             { return strings.Join(r.path, "/") }
func (r *run) Helper()                  {}
func (r *run) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *run) Fatalf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *run) Run(name string, f func(T)) bool {
	r.parts = true
	if err := r.ctx.Err(); err != nil {
		return false
	}
	part := &run{ctx: r.ctx, path: append(slices.Clone(r.path), name), report: r.report}
	begun := time.Now()
	part.do(f)
	if !part.parts {
		r.report(Result{Check: part.Name(), OK: len(part.failed) == 0, Failed: strings.Join(part.failed, "; "), Took: time.Since(begun)})
	}
	return len(part.failed) == 0
}

// do runs a function and then the clean-ups, each in a goroutine that Fatalf
// can end.
func (r *run) do(f func(T)) {
	contained(func() { f(r) })
	for _, c := range slices.Backward(r.cleanups) {
		contained(c)
	}
}

func contained(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Package selftest proves a machine: it does, step by step, what a dispatch
// does there, with a sandbox and a repository of its own, and says of each step
// how it went.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Result is how one check went.
type Result struct {
	Check   string        `json:"check"`
	OK      bool          `json:"ok"`
	Skipped bool          `json:"skipped,omitempty"` // it was not tried; neither well nor failed
	Detail  string        `json:"detail"`            // what was found, or why it was skipped
	Failed  string        `json:"failed"`            // what was not as it should be
	Remedy  string        `json:"remedy"`            // what to do, where Failed does not say it
	Took    time.Duration `json:"took_ns"`
}

// ErrFailed is returned by [Run] when a check has failed.
var ErrFailed = errors.New("selftest failed")

// skip is the error of a check that cannot be tried, or need not be.
type skip struct{ why string }

func (s *skip) Error() string { return s.why }

// Skip returns the error by which a function of a [Machine] says that there is
// nothing to try, and why.
func Skip(why string) error { return &skip{why} }

// IsSkip reports whether [Skip] has made an error.
func IsSkip(err error) bool {
	_, ok := errors.AsType[*skip](err)
	return ok
}

// remedied is an error that does not say itself what to do.
type remedied struct {
	error
	remedy string
}

func (r *remedied) Unwrap() error { return r.error }

// runner runs checks one by one.
type runner struct {
	report func(Result)
	failed bool
	not    map[string]string // of the checks that are not well: "failed" or "was skipped"
}

// check runs one check, unless one that it needs is not well. A limit of 0 is
// none. Nothing is reported of a check that the user has interrupted.
func (r *runner) check(ctx context.Context, name string, limit time.Duration, needs []string, try func(context.Context) (string, error)) {
	if ctx.Err() != nil {
		return
	}
	begun := time.Now()
	err := r.lacks(needs)
	detail := ""
	if err == nil {
		detail, err = within(ctx, limit, try)
	}
	if interrupted(ctx, err) {
		return
	}
	r.add(result(name, detail, err, time.Since(begun)))
}

// echo is how much earlier than us a program that a check has started can hear
// of Ctrl+C, which comes to all that a terminal runs.
const echo = 100 * time.Millisecond

// interrupted reports whether the user has ended it all. A check that has failed
// may have done so for that reason.
func interrupted(ctx context.Context, err error) bool {
	if err != nil && !IsSkip(err) {
		select {
		case <-ctx.Done():
		case <-time.After(echo):
		}
	}
	return ctx.Err() != nil
}

func (r *runner) add(res Result) {
	switch {
	case res.Skipped:
		r.not[res.Check] = "was skipped"
	case !res.OK:
		r.not[res.Check], r.failed = "failed", true
	}
	r.report(res)
}

// lacks says which needed check is not well.
func (r *runner) lacks(needs []string) error {
	for _, name := range needs {
		if how, not := r.not[name]; not {
			return Skip(fmt.Sprintf("it needs %q, which %s", name, how))
		}
	}
	return nil
}

// within runs a check that may take so long, and says so when it took longer.
func within(ctx context.Context, limit time.Duration, try func(context.Context) (string, error)) (string, error) {
	if limit == 0 {
		return try(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	detail, err := try(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("timed out after %s: %w", limit, err)
	}
	return detail, err
}

func result(name, detail string, err error, took time.Duration) Result {
	res := Result{Check: name, OK: err == nil, Detail: detail, Took: took}
	if IsSkip(err) {
		res.Skipped, res.Detail = true, err.Error()
		return res
	}
	if err != nil {
		res.Failed = err.Error()
	}
	if r, ok := errors.AsType[*remedied](err); ok {
		res.Remedy = r.remedy
	}
	return res
}

// Package selftest checks a machine: it runs the loop in a temporary sandbox and
// repository and reports each step.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Result is the result of one check.
type Result struct {
	Check   string        `json:"check"`
	OK      bool          `json:"ok"`
	Skipped bool          `json:"skipped,omitempty"` // neither passed nor failed
	Detail  string        `json:"detail"`            // what was found, or why it was skipped
	Failed  string        `json:"failed"`            // the error
	Remedy  string        `json:"remedy"`            // the error's hints
	Took    time.Duration `json:"took_ns"`
}

// ErrFailed is returned by [Run] when a check has failed.
var ErrFailed = errors.New("selftest failed")

type skipError struct{ why string }

func (s *skipError) Error() string { return s.why }

// Skip returns the error by which a method of a [Machine] skips its check.
func Skip(why string) error { return &skipError{why} }

// IsSkip reports whether an error is one of [Skip].
func IsSkip(err error) bool {
	_, ok := errors.AsType[*skipError](err)
	return ok
}

// runner runs checks one by one.
type runner struct {
	report    func(Result)
	failed    bool
	notPassed map[string]string // per check: "failed" or "was skipped"
}

// check runs one check, unless one that it needs has not passed. A limit of 0 is no
// limit. It does not report a check that the user has interrupted.
func (r *runner) check(ctx context.Context, name string, limit time.Duration, needs []string, try func(context.Context) (string, error)) {
	if ctx.Err() != nil {
		return
	}
	begun := time.Now()
	err := r.unmet(needs)
	detail := ""
	if err == nil {
		detail, err = within(ctx, limit, try)
	}
	if interrupted(ctx, err) {
		return
	}
	r.add(result(name, detail, err, time.Since(begun)))
}

// interruptDelay is how much earlier a child process can receive the SIGINT of
// Ctrl+C than this process.
const interruptDelay = 100 * time.Millisecond

// interrupted reports whether the user has interrupted the self-test, which can be
// why a check has failed.
func interrupted(ctx context.Context, err error) bool {
	if err != nil && !IsSkip(err) {
		select {
		case <-ctx.Done():
		case <-time.After(interruptDelay):
		}
	}
	return ctx.Err() != nil
}

func (r *runner) add(res Result) {
	switch {
	case res.Skipped:
		r.notPassed[res.Check] = "was skipped"
	case !res.OK:
		r.notPassed[res.Check], r.failed = "failed", true
	}
	r.report(res)
}

// unmet returns an error for the first needed check that has not passed.
func (r *runner) unmet(needs []string) error {
	for _, name := range needs {
		if how, found := r.notPassed[name]; found {
			return Skip(fmt.Sprintf("requires %q, which %s", name, how))
		}
	}
	return nil
}

// within runs a check with a time limit.
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
		res.Failed, res.Remedy = err.Error(), strings.Join(hint.Of(err), ", ")
	}
	return res
}

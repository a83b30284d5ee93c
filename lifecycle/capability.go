package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
)

// Restricter is a driver whose program enforces network rules itself. Other drivers
// run a proxy.
type Restricter interface {
	Driver
	// Restrict applies a policy to a running sandbox. It is idempotent and must be
	// called before an agent starts. If the program cannot enforce the policy, it
	// returns a [LooserError] if the user has chosen it, and warns once otherwise.
	Restrict(ctx context.Context, sb Sandbox, e Egress) error
	// CreatedPolicy returns the network policy that a sandbox was created with.
	CreatedPolicy(name string) (egress.Policy, error)
	// ForeignRules returns the network rules of a sandbox that docker-ralph did not
	// create; nil if the program cannot list them.
	ForeignRules(ctx context.Context, name string) ([]ForeignRule, error)
	// Requests returns the allowed and blocked requests of a sandbox.
	Requests(ctx context.Context, name string) ([]Request, error)
}

// ForeignRule is a network rule of a sandbox that docker-ralph did not create.
type ForeignRule struct {
	Host     string // as the program spells it
	Decision string // [egress.Allowed] or [egress.Refused]
	Origin   string
}

// Request summarizes the requests to one host in a program's log. The program
// counts until it exits, also after the sandbox is gone.
type Request struct {
	Host    string // untrusted: chosen by the agent
	Port    uint16 // 0 if unknown
	Refused bool
	Count   int
	Last    time.Time // zero if unknown
	Via     string
	Why     string
}

// LooserError means that a program cannot enforce the policy that the user has
// chosen.
type LooserError struct {
	Driver string
	Mode   egress.Mode
	Why    []string // clauses
}

func (e *LooserError) Error() string {
	return fmt.Sprintf("driver %[2]s cannot enforce the network policy %[1]q: %[3]s", e.Mode, e.Driver, strings.Join(e.Why, "; "))
}

// KeyStore is a driver whose program stores keys on the host and adds them to
// requests of agents.
type KeyStore interface {
	// Keys returns for which services it has keys. present reports whether the
	// user's environment has one of these variables.
	Keys(ctx context.Context, services []credential.Service, present func(names []string) bool) (map[string]bool, error)
	// MissingKeyHint returns the advice for storing a missing key.
	MissingKeyHint(services []credential.Service) string
}

// Adjuster is a driver that can change the limits and the network rules of an existing sandbox,
// in which no command runs.
type Adjuster interface {
	Adjust(ctx context.Context, sb Sandbox, spec Spec) error
}

// Limiter is a driver that may not support limits.
type Limiter interface {
	// Limits reports whether it supports [Resources].
	Limits() bool
}

// Limits reports whether a driver supports [Resources].
func Limits(d Driver) bool {
	l, ok := d.(Limiter)
	return !ok || l.Limits()
}

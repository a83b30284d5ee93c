package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
)

// Restricter is a driver whose program decides what a sandbox reaches, by rules that
// it has to be told. Other drivers give a sandbox a network of its own.
type Restricter interface {
	Driver
	// Restrict keeps a running sandbox to a policy. It can be repeated, and has to
	// be before an agent is started. Where the program falls short of a policy that
	// was asked for, it returns a [LooserError]; of another, it warns, once.
	Restrict(ctx context.Context, sb Sandbox, e Egress) error
	// MadeFor returns the network policy that a sandbox was made for.
	MadeFor(name string) (egress.Policy, error)
	// Standing returns the rules for a sandbox's network that are not ours; nil where
	// the program does not tell.
	Standing(ctx context.Context, name string) ([]StandingRule, error)
	// Requests returns what went to the network from a sandbox of that name, and
	// what was refused.
	Requests(ctx context.Context, name string) ([]Request, error)
}

// StandingRule is a rule for a sandbox's network that somebody else has made.
type StandingRule struct {
	Host     string // in the program's own words
	Decision string // [egress.Allowed] or [egress.Refused]
	Origin   string
}

// Request is what a program's log has of the requests to one host. They are counted
// for as long as the program runs, and beyond a sandbox's end.
type Request struct {
	Host    string // text that the agent chose
	Port    uint16 // 0 if it is not known
	Refused bool
	Count   int
	Last    time.Time // zero if it is not known
	Via     string
	Why     string
}

// LooserError says that a program does not keep a sandbox to the policy that was
// asked for.
type LooserError struct {
	Driver string
	Mode   egress.Mode
	Why    []string // clauses
}

func (e *LooserError) Error() string {
	return fmt.Sprintf("the network policy %q cannot be kept with %s: %s. The driver \"container\" keeps it", e.Mode, e.Driver, strings.Join(e.Why, "; "))
}

// KeyStore is a driver whose program keeps keys on the host, and adds them to an
// agent's requests.
type KeyStore interface {
	// Keys tells for which services it does. present reports whether the user's
	// environment has one of these variables.
	Keys(ctx context.Context, services []credential.Service, present func(names []string) bool) (map[string]bool, error)
	// GiveKey says how it is given a key for services that it has none for.
	GiveKey(services []credential.Service) string
}

// Limiter is a driver that may not be able to limit what a sandbox uses.
type Limiter interface {
	// Limits reports whether it can.
	Limits() bool
}

// Limits reports whether a driver can limit what a sandbox uses.
func Limits(d Driver) bool {
	l, ok := d.(Limiter)
	return !ok || l.Limits()
}

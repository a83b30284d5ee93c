// Package canary tries the ways out of a sandbox before its agent does. It
// runs where the agent will: in the same network, with no more rights. A wall
// is believed only when it was seen to hold.
package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Question says what shall be closed and what open.
type Question struct {
	// Proxy is the one address that shall answer. If it is not valid the
	// network is open, but for what no sandbox reaches.
	Proxy netip.Addr `json:"proxy,omitzero"`
	// Hosts are addresses of the engine's machine.
	Hosts []netip.Addr `json:"hosts,omitempty"`
	// Firewall puts the rules of package firewall in place, between trying the
	// network without them and with them.
	Firewall bool `json:"firewall,omitempty"`
	// Near are the engine's networks, which the firewall closes where the
	// network is open.
	Near []netip.Prefix `json:"near,omitempty"`
	// Wait is how long to wait for an answer that shall not come.
	Wait time.Duration `json:"wait"`
	// Patience is how long the proxy may take to begin.
	Patience time.Duration `json:"patience"`
	// Await is set if the canary is told when the proxy is there. Without it the
	// canary asks until it is answered, which takes a second more if the first time
	// was too early: that is when the kernel looks for a machine again.
	Await bool `json:"await,omitempty"`
	// There returns when the proxy is there, if Await is set.
	There func(ctx context.Context) error `json:"-"`
}

// Answer says what is not as it shall be.
type Answer struct {
	// Open are the ways out that shall be closed, in words.
	Open []string `json:"open"`
	// Broken are the ways that shall be open.
	Broken []string `json:"broken"`
}

// Err returns nil if all is as it shall be.
func (a Answer) Err() error {
	var errs []error
	if len(a.Open) > 0 {
		errs = append(errs, fmt.Errorf("the sandbox's network is not isolated: %s", strings.Join(a.Open, "; ")))
	}
	if len(a.Broken) > 0 {
		errs = append(errs, fmt.Errorf("the sandbox's proxy does not work: %s", strings.Join(a.Broken, "; ")))
	}
	return errors.Join(errs...)
}

// Encode returns a question as the one argument of the program.
func (q Question) Encode() (string, error) {
	b, err := json.Marshal(q)
	return string(b), err
}

// ParseQuestion reads what [Question.Encode] wrote.
func ParseQuestion(arg string) (Question, error) {
	var q Question
	if err := json.Unmarshal([]byte(arg), &q); err != nil {
		return Question{}, fmt.Errorf("parsing the question: %w", err)
	}
	if q.Wait <= 0 {
		return Question{}, errors.New("parsing the question: wait is not positive")
	}
	return q, nil
}

// ParseAnswer reads what the program printed. No answer is not a good one.
func ParseAnswer(output []byte) (Answer, error) {
	var a struct {
		Open   *[]string `json:"open"`
		Broken *[]string `json:"broken"`
	}
	if err := json.Unmarshal(output, &a); err != nil {
		return Answer{}, fmt.Errorf("parsing the answer of the canary: %w", err)
	}
	if a.Open == nil || a.Broken == nil {
		return Answer{}, errors.New("incomplete answer of the canary")
	}
	return Answer{Open: *a.Open, Broken: *a.Broken}, nil
}

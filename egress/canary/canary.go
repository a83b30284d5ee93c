// Package canary verifies the network isolation of a sandbox before its agent starts.
// It runs in the sandbox's network and tries to connect to everything that must be
// blocked.
package canary

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Question describes what must be blocked and what must work.
type Question struct {
	// Proxy is the one address that shall answer. If it is not valid, the network is
	// open: then the rules of package firewall are put in place first.
	Proxy netip.Addr `json:"proxy,omitzero"`
	// Hosts are addresses of the engine's host.
	Hosts []netip.Addr `json:"hosts,omitempty"`
	// Near are the engine's networks, which the firewall blocks without a proxy.
	Near []netip.Prefix `json:"near,omitempty"`
	// Wait is how long to wait for connections that must fail.
	Wait time.Duration `json:"wait"`
	// Timeout bounds the start of the proxy.
	Timeout time.Duration `json:"timeout"`
}

// Answer is the result. It is empty if the isolation is complete.
type Answer struct {
	// Open describes connections that must be blocked, but are not.
	Open []string `json:"open"`
	// Broken describes connections that must work, but do not.
	Broken []string `json:"broken"`
}

// Err returns nil if the answer is empty.
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

// Encode returns the argument of the program.
func (q Question) Encode() (string, error) {
	b, err := json.Marshal(q)
	return string(b), err
}

// ParseQuestion is the inverse of [Question.Encode].
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

// ParseAnswer parses the output of the program. Missing fields are an error.
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

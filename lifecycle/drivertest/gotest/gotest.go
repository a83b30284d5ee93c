// Package gotest runs the conformance suite in a test of the go command.
package gotest

import (
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest"
)

// T makes a test one that the suite can be run in.
func T(t *testing.T) drivertest.T { return test{t} }

type test struct{ *testing.T }

func (t test) Run(name string, f func(drivertest.T)) bool {
	return t.T.Run(name, func(t *testing.T) { f(test{t}) })
}

package drivertest

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

func TestReport(t *testing.T) {
	var results []Result
	var order []string
	root := &run{ctx: t.Context(), report: func(r Result) {
		r.Took = 0
		results = append(results, r)
	}}
	root.do(func(c T) {
		c.Run("good", func(c T) {
			equal(c, "one", 1, 1)
			c.Cleanup(func() { order = append(order, "first") })
			c.Cleanup(func() { order = append(order, "second") })
		})
		c.Run("bad", func(c T) {
			c.Cleanup(func() { c.Fatalf("cannot clean up") })
			noError(c, errors.New("broken"))
			order = append(order, "never")
		})
		c.Run("parts", func(c T) {
			c.Run("inner", func(c T) { holds(c, c.Name(), false) })
		})
	})
	assert.DeepEqual(t, order, []string{"second", "first"})
	assert.DeepEqual(t, results, []Result{
		{Check: "good", OK: true},
		{Check: "bad", Failed: "broken; cannot clean up"},
		{Check: "parts/inner", Failed: "parts/inner: it is not so"},
	})
}

func TestReportEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	root := &run{ctx: ctx, report: func(Result) {}}
	root.do(func(c T) {
		for range 3 {
			c.Run("x", func(T) { ran++; cancel() })
		}
	})
	assert.Equal(t, ran, 1)
}

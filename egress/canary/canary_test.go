package canary_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress/canary"
)

func TestQuestionRoundTrip(t *testing.T) {
	q := canary.Question{
		Proxy: netip.MustParseAddr("10.9.0.2"), Hosts: []netip.Addr{netip.MustParseAddr("10.9.0.1")},
		Wait: time.Second, Timeout: time.Minute,
		Near: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
	}
	arg, err := q.Encode()
	assert.NilError(t, err)
	got, err := canary.ParseQuestion(arg)
	assert.NilError(t, err)
	assert.Assert(t, got.Proxy == q.Proxy && got.Hosts[0] == q.Hosts[0] && got.Wait == q.Wait && got.Timeout == q.Timeout)
	assert.Assert(t, slices.Equal(got.Near, q.Near))
	_, err = canary.ParseQuestion("{}")
	assert.ErrorContains(t, err, "wait is not positive")
}

func TestAnswerErrors(t *testing.T) {
	for output, want := range map[string]string{
		"":                                 "parsing the answer of the canary",
		"{}":                               "incomplete answer",
		`{"open":[]}`:                      "incomplete answer",
		`{"open":null,"broken":[]}`:        "incomplete answer",
		`{"open":["a"],"broken":["b"]}`:    "not isolated: a\nthe sandbox's proxy does not work: b",
		`{"open":["a","c"],"broken":[]}`:   "not isolated: a; c",
		`{"open":[],"broken":["nothing"]}`: "does not work: nothing",
		`{"open":[],"broken":[]}`:          "",
	} {
		t.Run(output, func(t *testing.T) {
			a, err := canary.ParseAnswer([]byte(output))
			if err == nil {
				err = a.Err()
			}
			if want == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"open":[],"broken":[]}`))
	f.Add([]byte(`{"open":null}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		a, err := canary.ParseAnswer(output)
		assert.Assert(t, err != nil || a.Open != nil && a.Broken != nil)
	})
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"proxi"}, {"-h"}} {
		assert.ErrorContains(t, run(t.Context(), args, streams{}), "usage: ralph-egress SUBCOMMAND")
	}
	for _, args := range [][]string{{}, {"polic"}, {"policy", "x"}, {"stats", "x"}, {"allow"}, {"deny"}, {"allow", "-x"}} {
		assert.ErrorContains(t, run(t.Context(), append([]string{"ctl"}, args...), streams{err: io.Discard}), "usage: ralph-egress ctl")
	}
	assert.ErrorContains(t, run(t.Context(), []string{"proxy", "x"}, streams{}), "usage: ralph-egress proxy")
	var out bytes.Buffer
	assert.NilError(t, run(t.Context(), []string{"version"}, streams{out: &out}))
	assert.Equal(t, out.String(), version+"\n")
}

func TestStartMessageIsRequired(t *testing.T) {
	for _, tc := range []struct{ name, in, err string }{
		{"nothing", "", "unexpected end of standard input"},
		{"half a line", `{"address":"127.0.0.1"`, "unexpected end of standard input"},
		{"no JSON", "hello secret\n", "invalid JSON"},
		{"no policy", `{"address":"127.0.0.1"}` + "\n", "network policy"},
		{"unknown policy", `{"address":"127.0.0.1","policy":{"mode":"secret"}}` + "\n", "invalid JSON"},
		{"no address", `{"policy":{"mode":"deny"}}` + "\n", "invalid address of the proxy"},
		{"an address of somebody else", `{"address":"203.0.113.1","policy":{"mode":"deny"}}` + "\n", "opening the proxy's ports"},
		{"a line without end", strings.Repeat("x", maxStart+1), "unexpected end of standard input"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), []string{"proxy"}, streams{strings.NewReader(tc.in), &out, io.Discard})
			assert.ErrorContains(t, err, tc.err)
			assert.Assert(t, !strings.Contains(err.Error(), "secret"), err.Error())
			assert.Equal(t, out.String(), "")
		})
	}
}

func TestStartIsCanceled(t *testing.T) {
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	assert.ErrorContains(t, run(ctx, []string{"proxy"}, streams{in: in}), "reading the start message: canceled")
}

// TestProxyAndCtl runs the program as it runs in its container, on an address
// of loopback and the usual ports.
func TestProxyAndCtl(t *testing.T) {
	const address = "127.83.17.5"
	if probe, err := net.Listen("tcp", address+":53"); err != nil {
		if os.IsPermission(err) {
			t.Skip("ports below 1024 are not for this user here; in containers they are")
		}
		assert.NilError(t, err)
	} else {
		_ = probe.Close()
	}
	start := egress.Start{
		Address: netip.MustParseAddr(address),
		Policy:  egress.Policy{Mode: egress.Allowlist},
		Routes:  []egress.Route{{Prefix: "/a", Target: "https://a.example", Headers: map[string]egress.Secret{"X-Api-Key": "sk-secret"}}},
	}
	line, err := json.Marshal(start)
	assert.NilError(t, err)
	in, feed := io.Pipe() // stays open, as a container's standard input does
	out := &output.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"proxy"}, streams{in, out, io.Discard}) }()
	_, err = feed.Write(append(line, '\n'))
	assert.NilError(t, err)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if strings.Contains(out.String(), `{"ready":true,"address":"`+address+`"}`) {
			return poll.Success()
		}
		return poll.Continue("%s", out.String())
	}, poll.WithTimeout(10*time.Second), poll.WithDelay(5*time.Millisecond))

	told := func(in string, args ...string) (string, error) {
		var answer bytes.Buffer
		err := run(ctx, append([]string{"ctl"}, args...), streams{in: strings.NewReader(in), out: &answer, err: io.Discard})
		return answer.String(), err
	}
	ctl := func(args ...string) (string, error) { return told("", args...) }
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address + ":3128"})}}
	ask := func() string {
		response, err := client.Get("http://inside.example.invalid/")
		assert.NilError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		return string(body)
	}
	assert.Assert(t, cmp.Contains(ask(), "not in allowlist"))
	answer, err := ctl("allow", "-origin", "the user", "inside.example.invalid")
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(answer, `{"rule":"inside.example.invalid","origin":"the user"}`))
	assert.Assert(t, cmp.Contains(ask(), "is allowed, but cannot be reached"))
	answer, err = ctl("stats")
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(answer, `"host":"inside.example.invalid","port":80,"allowed":1,"refused":1`))
	_, err = ctl("allow", "*")
	assert.ErrorContains(t, err, "matches every host")
	answer, err = ctl("policy")
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(answer+out.String(), "sk-secret"), "a key is shown")
	routes, err := told(`[{"prefix":"/b","target":"https://b.example","headers":{"X-Api-Key":"sk-secret"}}]`+"\n", "routes")
	assert.NilError(t, err)
	assert.Equal(t, routes, "[\"/b\"]\n")
	for _, wrong := range []string{"", `[{"sk-secret":1}]` + "\n", `[{"prefix":"b","target":"sk-secret"}]` + "\n"} {
		_, err = told(wrong, "routes")
		assert.Assert(t, err != nil && !strings.Contains(err.Error(), "sk-secret"), "%v", err)
	}

	cancel()
	assert.NilError(t, <-done)
	_, err = net.Dial("tcp", address+":3128")
	assert.Assert(t, err != nil, "something still listens")
	assert.ErrorContains(t, run(t.Context(), []string{"ctl", "stats"}, streams{out: io.Discard, err: io.Discard}), "reaching the proxy")
}

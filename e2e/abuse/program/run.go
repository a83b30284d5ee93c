//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/e2e/abuse"
)

// prelude is what probes are written with.
//
//	closed COMMAND…       the command must fail; 126, 127 and 3 mean that it could not be tried
//	same WHAT GOT WANT    the texts must be the same
//
// Who tries nothing has not held.
const prelude = `exec 2>&1
tried=
say() { printf '\n= %s\n' "$*"; exit 0; }
broke() { say "broke $*"; }
skip() { say "skipped $*"; }
planted() { say "planted $*"; }
closed() {
	out=$("$@" 2>&1 </dev/null)
	case $? in
	0) broke "$*: $out" ;;
	126 | 127 | 3) skip "$*: $out" ;;
	esac
	case $out in *annot\ fork* | *usage:* | *Usage:*) skip "$*: $out" ;; esac
	tried=1
}
same() {
	[ "$2" = "$3" ] || broke "$1: $2, not $3"
	tried=1
}
writable() {
	[ -e "$1" ] || new=1
	: >>"$1" || return 1
	[ -z "$new" ] || rm -f "$1"
}
proxy=$(printf %s "$https_proxy" | sed 's|^http://||; s|/$||')
proxy_ip=${proxy%:*}
needs_proxy() { [ -n "$proxy" ] || skip "there is no proxy"; }
`

const trailer = `
[ -n "$tried" ] || skip "nothing was tried"
say held
`

// The probes of these categories are run one after the other, after all
// others: they would be in each other's way.
func alone(category string) bool { return category == "resources" || category == "git" }

// runAll runs all probes, except for those that are named, and reports.
func runAll(ctx context.Context, out io.Writer, except []string) error {
	probes, err := abuse.Probes()
	if err != nil {
		return err
	}
	results := make([]abuse.Result, len(probes))
	var group sync.WaitGroup
	places := make(chan struct{}, 8)
	for i, p := range probes {
		if slices.Contains(except, p.Name) {
			results[i] = abuse.Result{Probe: p.Name, Outcome: abuse.Skipped, Why: "it is left out"}
			continue
		}
		if alone(p.Category) {
			continue
		}
		places <- struct{}{}
		group.Go(func() {
			results[i] = try(ctx, p)
			<-places
		})
	}
	group.Wait()
	for i, p := range probes {
		if alone(p.Category) && results[i].Outcome == "" {
			results[i] = try(ctx, p)
		}
	}
	for _, r := range results {
		if _, err := fmt.Fprintln(out, r); err != nil {
			return err
		}
	}
	return nil
}

// longest is how long a probe may take.
const longest = time.Minute

func try(ctx context.Context, p abuse.Probe) abuse.Result {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return abuse.Result{Probe: p.Name, Outcome: abuse.Skipped, Why: err.Error()}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", prelude+p.Script+trailer)
	cmd.Env = append(os.Environ(), "abuse="+self)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout = &said
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most groups have ended
	all := said.String()
	_, verdict, found := cutLast(all, "\n= ")
	switch {
	case ctx.Err() != nil:
		return abuse.Result{Probe: p.Name, Outcome: abuse.Skipped, Why: "it takes too long: " + oneLine(all)}
	case !found:
		return abuse.Result{Probe: p.Name, Outcome: abuse.Skipped, Why: oneLine(fmt.Sprint(errors.Join(err, errors.New(all))))}
	}
	outcome, why, _ := strings.Cut(verdict, " ")
	return abuse.Result{Probe: p.Name, Outcome: abuse.Outcome(strings.TrimSpace(outcome)), Why: oneLine(why)}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/egress/canary"
)

const (
	// questionPatience is how long a question may take to come after the start, and
	// answerPatience how long answering it may take.
	questionPatience = 5 * time.Second
	answerPatience   = time.Minute
)

// runHold keeps a network namespace, with all rules in it, for as long as nobody
// ends it. Sandboxes that come and go use that namespace. Who starts it can have it
// raise the wall, by a question for the canary on standard input: that saves a
// process of its own. Then it gives up the right to change rules. What runs beside
// it has it still.
func runHold(ctx context.Context, args []string, std streams) error {
	if len(args) > 0 {
		return errors.New("usage: ralph-egress hold")
	}
	answer, err := answerOne(ctx, std.in)
	if err != nil {
		_, _ = fmt.Fprintln(std.err, "Error:", err) // whoever has asked does it by himself then
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("giving up all capabilities: %w", errno)
	}
	if err := json.NewEncoder(std.out).Encode(answer); err != nil {
		return fmt.Errorf("saying what was found: %w", err)
	}
	<-ctx.Done()
	return nil
}

// answerOne answers the question on the first line of in, if there is one. The
// second line says that the proxy is there.
func answerOne(ctx context.Context, in io.Reader) (*canary.Answer, error) {
	lines := make(chan string)
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(io.LimitReader(in, maxStart))
		scanner.Buffer(nil, maxStart)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	line, asked := "", false
	select {
	case line, asked = <-lines:
	case <-time.After(questionPatience):
	case <-ctx.Done():
	}
	if !asked {
		return nil, nil //nolint:nilnil // nobody has asked
	}
	question, err := canary.ParseQuestion(line)
	if err != nil {
		return nil, err
	}
	question.There = func(ctx context.Context) error {
		select {
		case _, ok := <-lines:
			if !ok {
				return errors.New("standard input ended")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	answer, err := canary.Run(ctx, question)
	if err != nil {
		return nil, err
	}
	return &answer, nil
}

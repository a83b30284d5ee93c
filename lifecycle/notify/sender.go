package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// queueMax bounds the notifications that wait for their delivery. It has room for all events
	// of a loop's log, so that an agent's other events displace no question.
	queueMax = 2*eventsMax + 64
	// closeGrace is how long the end of a loop waits for deliveries, to report a failure.
	closeGrace = time.Second
)

// Sender passes notifications to processes that deliver them, one after the other. A nil
// Sender sends nothing.
type Sender struct {
	to      config.Notify
	program []string // delivers the file that is added
	dir     string   // for these files
	warn    func(error)

	queue   chan Notification
	closing chan struct{}
	done    chan struct{}
	warned  sync.Once
}

// NewSender returns a sender, or nil if nothing is configured. program is a command line that
// calls [Deliver] with the file that is its last argument; dir is a directory of the user.
// The first failure is passed to warn.
func NewSender(ctx context.Context, to config.Notify, program []string, dir string, warn func(error)) *Sender {
	if !to.Enabled() || len(program) == 0 {
		return nil
	}
	s := &Sender{
		to: to, program: program, dir: dir, warn: warn,
		queue: make(chan Notification, queueMax), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run(context.WithoutCancel(ctx)) // the processes have their own time limits
	return s
}

// Send queues a notification. It does not block.
func (s *Sender) Send(n Notification) {
	if s == nil {
		return
	}
	for {
		select {
		case s.queue <- n:
			return
		default:
		}
		select {
		case <-s.queue: // the newest are the most important
			s.fail(errors.New("too many at once: some were dropped"))
		default:
		}
	}
}

// Close starts the remaining deliveries. They continue after this process.
func (s *Sender) Close() {
	if s == nil {
		return
	}
	close(s.queue)
	close(s.closing)
	select {
	case <-s.done:
	case <-time.After(closeGrace):
	}
}

func (s *Sender) fail(err error) {
	s.warned.Do(func() { s.warn(fmt.Errorf("sending notifications: %w", err)) })
}

// run starts one process after the other; when the sender is closed, without waiting.
func (s *Sender) run(ctx context.Context) {
	defer close(s.done)
	var running sync.WaitGroup
	for n := range s.queue {
		wait, err := s.start(ctx, s.queued(n))
		if err != nil {
			s.fail(err)
			continue
		}
		delivered := make(chan struct{})
		running.Go(func() {
			defer close(delivered)
			if err := wait(); err != nil {
				s.fail(err)
			}
		})
		select {
		case <-delivered:
		case <-s.closing:
		}
	}
	running.Wait()
}

// queued returns a notification and those that are queued.
func (s *Sender) queued(n Notification) []Notification {
	all := []Notification{n}
	for {
		select {
		case n, open := <-s.queue:
			if !open {
				return all
			}
			all = append(all, n)
		default:
			return all
		}
	}
}

// batch is the file for a process that delivers.
type batch struct {
	To            config.Notify  `json:"to"`
	Notifications []Notification `json:"notifications"`
}

// start starts a process, which outlives this one and its terminal.
func (s *Sender) start(ctx context.Context, all []Notification) (wait func() error, err error) {
	content, err := json.Marshal(batch{s.to, all})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(s.dir, "*.json") // with the webhook, whose URL can be a secret
	if err != nil {
		return nil, err
	}
	if _, err = file.Write(content); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	if err := file.Close(); err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	cmd := exec.CommandContext(ctx, s.program[0], append(slices.Clone(s.program[1:]), file.Name())...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = filepath.Dir(file.Name()), &stderr
	lifecycle.Outlive(cmd)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return func() error {
		err := cmd.Wait()
		if text := termsafe.Line(strings.TrimPrefix(strings.TrimSpace(stderr.String()), "Error: ")); err != nil && text != "" {
			return errors.New(text)
		}
		return err
	}, nil
}

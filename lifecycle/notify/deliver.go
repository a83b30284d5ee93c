package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// limits bound deliveries.
type limits struct {
	one time.Duration // one notification
	all time.Duration // those of a file
}

var defaultLimits = limits{one: 10 * time.Second, all: time.Minute}

// Deliver delivers the notifications in a file, and removes it.
func Deliver(ctx context.Context, path, userAgent string) error {
	return deliver(ctx, path, userAgent, defaultLimits)
}

func deliver(ctx context.Context, path, userAgent string, limits limits) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	var b batch
	if err := json.Unmarshal(content, &b); err != nil {
		return fmt.Errorf("reading notifications: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.all)
	defer cancel()
	var channels []func(context.Context, []byte) error
	if len(b.To.Command) > 0 {
		channels = append(channels, func(ctx context.Context, n []byte) error { return runCommand(ctx, b.To.Command, n) })
	}
	if b.To.Webhook != "" {
		channels = append(channels, func(ctx context.Context, n []byte) error { return post(ctx, b.To.Webhook, userAgent, n) })
	}
	var group errgroup.Group
	failures := make([]error, len(channels))
	for i, channel := range channels {
		group.Go(func() error {
			for _, n := range b.Notifications {
				if err := within(ctx, limits.one, n, channel); failures[i] == nil {
					failures[i] = err
				}
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(failures...)
}

func within(ctx context.Context, limit time.Duration, n Notification, channel func(context.Context, []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return channel(ctx, append(content, '\n'))
}

// outputMax bounds what is read from a command or a server, in bytes.
const outputMax = 64 << 10

// runCommand runs the command with a notification on its standard input.
func runCommand(ctx context.Context, args []string, n []byte) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	home, _ := os.UserHomeDir()
	cmd.Dir = cmp.Or(home, os.TempDir()) // not the repository
	var output tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(n), &output, &output
	ownGroup(cmd)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("command %s did not end in time", args[0])
	case err != nil && len(output) > 0:
		return fmt.Errorf("command %s: %w: %s", args[0], err, termsafe.Line(string(output)))
	case err != nil:
		return fmt.Errorf("command %s: %w", args[0], err)
	}
	return nil
}

// tail is the end of an output.
type tail []byte

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	const size = 500
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-size):]
	return len(p), nil
}

// post posts a notification. Errors name the host only: the rest of the URL can be a secret.
func post(ctx context.Context, webhook, userAgent string, n []byte) error {
	to, err := url.Parse(webhook)
	if err != nil {
		return errors.New("webhook: invalid URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, webhook, bytes.NewReader(n))
	if err != nil {
		return fmt.Errorf("webhook %s: invalid URL", to.Host)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req) // with the proxy of the environment
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if err != nil {
		return fmt.Errorf("webhook %s: %w", to.Host, err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, outputMax))
	switch {
	case res.StatusCode >= 400:
		return fmt.Errorf("webhook %s: %s", to.Host, res.Status)
	case res.StatusCode >= 300: // the next request would be without the content, or go elsewhere
		return fmt.Errorf("webhook %s: redirected (%s)", to.Host, res.Status)
	}
	return nil
}

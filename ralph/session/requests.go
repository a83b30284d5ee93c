package session

import (
	"context"
	"crypto/rand"
)

// call has the host perform an operation.
func call[T any](ctx context.Context, c *Client, name string, r loopRequest) (result T, err error) {
	err = c.send(ctx, loopPath+name, rand.Text(), r, &result)
	return result, err
}

func (c *Client) do(ctx context.Context, name string, r loopRequest) error {
	_, err := call[struct{}](ctx, c, name, r)
	return err
}

// Register implements [Backlog].
func (c *Client) Register(ctx context.Context) (Registration, error) {
	return call[Registration](ctx, c, "register", loopRequest{})
}

// Deregister implements [Backlog].
func (c *Client) Deregister(ctx context.Context, agentID string) error {
	return c.do(ctx, "deregister", loopRequest{Agent: agentID})
}

// BeginRun implements [Backlog].
func (c *Client) BeginRun(ctx context.Context, agentID string) error {
	return c.do(ctx, "begin-run", loopRequest{Agent: agentID})
}

// Status implements [Backlog].
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "status", loopRequest{})
}

// Tasks implements [Backlog].
func (c *Client) Tasks(ctx context.Context) (map[string]Task, error) {
	return call[map[string]Task](ctx, c, "tasks", loopRequest{})
}

// Claimable implements [Backlog].
func (c *Client) Claimable(ctx context.Context) (bool, error) {
	return call[bool](ctx, c, "claimable", loopRequest{})
}

// Held implements [Backlog].
func (c *Client) Held(ctx context.Context, agentID string) ([]string, error) {
	return call[[]string](ctx, c, "held", loopRequest{Agent: agentID})
}

// Renew implements [Backlog].
func (c *Client) Renew(ctx context.Context, agentID string) error {
	return c.do(ctx, "renew", loopRequest{Agent: agentID})
}

// Release implements [Backlog].
func (c *Client) Release(ctx context.Context, agentID, slug, reason string) error {
	return c.do(ctx, "release", loopRequest{Agent: agentID, Slug: slug, Text: reason})
}

// Forgive implements [Backlog].
func (c *Client) Forgive(ctx context.Context, slug string) error {
	return c.do(ctx, "forgive", loopRequest{Slug: slug})
}

// Explain implements [Backlog].
func (c *Client) Explain(ctx context.Context, slug, cause string) error {
	return c.do(ctx, "explain", loopRequest{Slug: slug, Text: cause})
}

// Reopen implements [Backlog].
func (c *Client) Reopen(ctx context.Context, slug, reason string) error {
	return c.do(ctx, "reopen", loopRequest{Slug: slug, Text: reason})
}

// Accepted implements [Backlog].
func (c *Client) Accepted(ctx context.Context) (string, error) {
	return call[string](ctx, c, "accepted", loopRequest{})
}

// EndRun implements [Backlog].
func (c *Client) EndRun(ctx context.Context, r EndOfRun) (Verdict, error) {
	return call[Verdict](ctx, c, "end-run", loopRequest{Run: &r})
}

// RenameCommit implements [Backlog].
func (c *Client) RenameCommit(ctx context.Context, slug, from, to string) error {
	return c.do(ctx, "rename-commit", loopRequest{Slug: slug, From: from, To: to})
}

// Park implements [Backlog].
func (c *Client) Park(ctx context.Context, slug, question string, options ...string) error {
	return c.do(ctx, "park", loopRequest{Slug: slug, Text: question, Options: options})
}

// ApplyDefaults implements [Backlog].
func (c *Client) ApplyDefaults(ctx context.Context) ([]string, error) {
	return call[[]string](ctx, c, "apply-defaults", loopRequest{})
}

// Overtaken implements [Backlog].
func (c *Client) Overtaken(ctx context.Context, agentID string) ([]string, error) {
	return call[[]string](ctx, c, "overtaken", loopRequest{Agent: agentID})
}

// AdoptHint implements [Backlog].
func (c *Client) AdoptHint(ctx context.Context) (string, error) {
	return call[string](ctx, c, "adopt-hint", loopRequest{})
}

package session

import (
	"context"
	"net"
	"time"
)

// ClientOptions configure a [Client].
type ClientOptions struct {
	Dial    func(ctx context.Context) (net.Conn, error)
	Token   string
	Wait    time.Duration // how long it waits for the host
	Waiting func(bool)    // called when a wait begins and ends; may be nil
}

// Client sends requests to the host.
type Client struct{ Backlog }

// NewClient returns a client.
func NewClient(ClientOptions) *Client { panic("stub") }

// TaskRequest is a task command.
type TaskRequest struct {
	ID       string              `json:"id"` // random; a repeated request is not executed again
	Args     []string            `json:"args"`
	Agent    string              `json:"agent,omitempty"`
	Stdin    []byte              `json:"stdin,omitempty"`
	Specs    []string            `json:"specs,omitempty"`
	SetAside map[string][]string `json:"set_aside,omitempty"`
}

// TaskResponse is its result.
type TaskResponse struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	Code   int    `json:"code"`
}

// Task runs a task command on the host.
func (c *Client) Task(context.Context, TaskRequest) (TaskResponse, error) { panic("stub") }

// Interrupt ends current and later waits.
func (c *Client) Interrupt() {}

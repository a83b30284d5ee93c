package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/docker-ralph/docker-ralph/egress/canary"
)

// runCanary verifies the isolation and prints the answer as JSON. A line on standard input
// reports that the proxy listens, if the question says to wait for it.
func runCanary(ctx context.Context, args []string, std streams) error {
	if len(args) != 1 {
		return errors.New("usage: ralph-egress canary QUESTION")
	}
	question, err := canary.ParseQuestion(args[0])
	if err != nil {
		return err
	}
	question.There = func(ctx context.Context) error {
		_, err := readLine(ctx, std.in)
		return err
	}
	answer, err := canary.Run(ctx, question)
	if err != nil {
		return err
	}
	return json.NewEncoder(std.out).Encode(answer)
}

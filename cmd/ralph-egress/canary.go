package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/docker-ralph/docker-ralph/egress/canary"
)

// runCanary checks the isolation of its network and prints what it found as JSON.
func runCanary(ctx context.Context, args []string, std streams) error {
	if len(args) != 1 {
		return errors.New("usage: ralph-egress canary QUESTION")
	}
	question, err := canary.ParseQuestion(args[0])
	if err != nil {
		return err
	}
	answer, err := canary.Run(ctx, question)
	if err != nil {
		return err
	}
	return json.NewEncoder(std.out).Encode(answer)
}

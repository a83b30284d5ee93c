package plugin

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/docker/cli/cli/command"
)

// confirmer returns how to ask the user, or nil when there is nobody to ask.
func confirmer(cli command.Cli, in *input) func(context.Context, string) (bool, error) {
	ask := asker(cli, in)
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, question string) (bool, error) {
		answer, err := ask(ctx, question+" [y/N] ")
		answer = strings.ToLower(answer)
		return answer == "y" || answer == "yes", err
	}
}

// asker returns how to ask the user for a word, or nil when there is nobody to
// ask. Questions go to standard error, like everything that is not a result.
func asker(cli command.Cli, in *input) func(context.Context, string) (string, error) {
	if !cli.In().IsTerminal() || !cli.Err().IsTerminal() {
		return nil
	}
	return func(ctx context.Context, question string) (string, error) {
		_, _ = fmt.Fprint(cli.Err(), question)
		in.take() // from the agent, which has ended
		answer := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(in).ReadString('\n') // the end of input is an empty answer
			answer <- line
		}()
		select {
		case <-ctx.Done():
			_, _ = fmt.Fprintln(cli.Err())
			return "", ctx.Err()
		case line := <-answer:
			return strings.TrimSpace(line), nil
		}
	}
}

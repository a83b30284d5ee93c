package plugin

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/docker/cli/cli/command"
)

// confirmer returns a function that asks the user to confirm; nil without a terminal.
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

// asker returns a function that asks the user for a word; nil without a terminal.
// Questions go to standard error, like everything that is not a result.
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

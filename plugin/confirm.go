package plugin

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/docker/cli/cli/command"
)

// confirmer returns how to ask the user, or nil when there is nobody to ask.
// Questions go to standard error, like everything that is not a result.
func confirmer(cli command.Cli, in *input) func(context.Context, string) (bool, error) {
	if !cli.In().IsTerminal() || !cli.Err().IsTerminal() {
		return nil
	}
	return func(ctx context.Context, question string) (bool, error) {
		_, _ = fmt.Fprintf(cli.Err(), "%s [y/N] ", question)
		in.take() // from the agent, which has ended
		answer := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(in).ReadString('\n') // the end of input is a no
			answer <- line
		}()
		select {
		case <-ctx.Done():
			_, _ = fmt.Fprintln(cli.Err())
			return false, ctx.Err()
		case line := <-answer:
			line = strings.ToLower(strings.TrimSpace(line))
			return line == "y" || line == "yes", nil
		}
	}
}

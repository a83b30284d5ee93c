package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

func newAnswerCommand(d dispatcher) *cobra.Command {
	return &cobra.Command{
		Use:   "answer [OPTIONS] TASK [ANSWER]",
		Short: "Answer an agent's question",
		Long: `Answer the question of a task and reopen it. Any text is an answer, and the number
of a choice stands for it. Without one, you choose at the terminal. The next agent of
the task finds the answer in its prompt.`,
		Args: cli.RequiresRangeArgs(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return d.completeTaskIDs(cmd, []string{taskjson.StatusQuestion}, nil, typed), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.withBacklog(cmd, func(h host.Host, b *manage.Backlog) error {
				var answer string
				id := args[0]
				list, err := b.Questions(cmd.Context())
				if err != nil {
					return err
				}
				i := slices.IndexFunc(list, func(q taskjson.OpenQuestion) bool { return q.ID == id })
				switch {
				case len(args) == 2 && args[1] == "":
					return errors.New("the answer is empty")
				case i < 0 && len(args) == 2:
					answer = args[1] // the error says what its status is
				case i < 0:
					return hint.Wrap(fmt.Errorf("task %q has no open question", id), "list them with %q", "docker ralph questions")
				case len(args) == 2:
					answer = list[i].Choose(args[1])
				default:
					answer, err = readAnswer(cmd.Context(), h, list[i])
				}
				if err != nil {
					return err
				}
				return runTask(cmd, b, []string{"answer", id, answer})
			})
		},
	}
}

// readAnswer asks the user the question of a task: for a text, the number of a choice, or an empty line for the
// default.
func readAnswer(ctx context.Context, h host.Host, q taskjson.OpenQuestion) (string, error) {
	if h.Ask == nil {
		return "", hint.Wrap(fmt.Errorf("answering %s: no answer given, and standard input is not a terminal", q.ID), "run %q", "docker ralph answer "+q.ID+" ANSWER")
	}
	prompt := "Answer: "
	if q.Default != "" {
		prompt = "Answer (Enter for the default): "
	}
	text, err := h.Ask(ctx, questionText(q)+prompt)
	if err != nil {
		return "", err
	}
	answer := q.Choose(text)
	if answer == "" {
		return "", errors.New("no answer")
	}
	return answer, nil
}

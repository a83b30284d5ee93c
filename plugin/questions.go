package plugin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func newQuestionsCommand(d dispatcher) *cobra.Command {
	var all bool
	var format string
	cmd := &cobra.Command{
		Use:               "questions [OPTIONS]",
		Short:             "List open questions",
		Long:              "List the questions that agents have asked and you have not answered.",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := questionListing(format).check(); format != "" && err != nil {
				return err
			}
			h, err := d.host(cmd, host.TaskCommand)
			if err != nil {
				return err
			}
			if all {
				list, err := manage.AllQuestions(cmd.Context(), h)
				if err != nil {
					return err
				}
				return printSandboxQuestions(d.cli.Out(), format, list)
			}
			worktree, err := d.options.worktree.wanted()
			if err != nil {
				return err
			}
			list, err := manage.Questions(cmd.Context(), h, worktree)
			if err != nil {
				return err
			}
			return printQuestions(d.cli.Out(), format, list)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&all, "all", "a", false, "Show the questions of all backlogs")
	addTextFormat(cmd, &format)
	return cmd
}

func printQuestions(out io.Writer, format string, list []taskjson.OpenQuestion) error {
	if format != "" {
		row := func(q taskjson.OpenQuestion) formatter.SubContext {
			return newQuestionRow(manage.SandboxQuestion{OpenQuestion: q})
		}
		return listing[taskjson.OpenQuestion]{format, "table {{.ID}}\t{{.Title}}\t{{.Question}}\t{{.Default}}", questionHeadings(), row}.write(out, list)
	}
	for i, q := range list {
		if i > 0 {
			_, _ = fmt.Fprintln(out)
		}
		if _, err := io.WriteString(out, questionText(q)); err != nil {
			return err
		}
	}
	return nil
}

func printSandboxQuestions(out io.Writer, format string, list []manage.SandboxQuestion) error {
	if format != "" {
		return questionListing(format).write(out, list)
	}
	for i, q := range list {
		if i > 0 {
			_, _ = fmt.Fprintln(out)
		}
		_, err := fmt.Fprintf(out, "%s (%s %s)\n%s", q.Sandbox, termsafe.Line(q.Repo), termsafe.Line(q.Branch), questionText(q.OpenQuestion))
		if err != nil {
			return err
		}
	}
	return nil
}

func questionListing(format string) listing[manage.SandboxQuestion] {
	return listing[manage.SandboxQuestion]{format, "table {{.Sandbox}}\t{{.ID}}\t{{.Title}}\t{{.Question}}\t{{.Default}}", questionHeadings(), newQuestionRow}
}

func questionHeadings() headings {
	return headings{
		"ID": "TASK", "Title": "TITLE", "Question": "QUESTION", "Default": "DEFAULT", "DefaultAt": "DEFAULT AT", "Options": "OPTIONS",
		"Sandbox": "SANDBOX", "Repo": "REPO", "Branch": "BRANCH", "Worktree": "WORKTREE",
	}
}

// questionRow is a question for a template. Its texts are untrusted, so every value is sanitized.
type questionRow struct {
	noHeader
	ID, Title, Question string

	Options            []string // with the default
	Default, DefaultAt string   // empty for none

	Sandbox, Repo, Branch, Worktree string // empty without --all
}

func newQuestionRow(q manage.SandboxQuestion) formatter.SubContext {
	r := &questionRow{
		ID: termsafe.Line(q.ID), Title: termsafe.Line(q.Title), Question: termsafe.Line(q.Text), Default: termsafe.Line(q.Default),
		Sandbox: termsafe.Line(q.Sandbox), Repo: termsafe.Line(q.Repo), Branch: termsafe.Line(q.Branch), Worktree: termsafe.Line(q.Worktree),
	}
	for _, option := range q.Choices() {
		r.Options = append(r.Options, termsafe.Line(option))
	}
	if !q.DefaultAt.IsZero() {
		r.DefaultAt = q.DefaultAt.Format(time.RFC3339)
	}
	return r
}

// questionText formats a question, whose texts are untrusted.
func questionText(q taskjson.OpenQuestion) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s: %s\n", termsafe.Line(q.ID), termsafe.Line(q.Title))
	for line := range strings.SplitSeq(termsafe.Strip(q.Text), "\n") {
		_, _ = fmt.Fprintf(&b, "  %s\n", line)
	}
	for i, choice := range q.Choices() {
		_, _ = fmt.Fprintf(&b, "  %d. %s%s\n", i+1, termsafe.Line(choice), defaultMark(q, choice))
	}
	return b.String()
}

// defaultMark marks the default answer.
func defaultMark(q taskjson.OpenQuestion, choice string) string {
	switch {
	case choice != q.Default:
		return ""
	case q.DefaultAt.IsZero():
		return " (default)"
	}
	return " (default in " + units.HumanDuration(max(0, time.Until(q.DefaultAt))) + ")"
}

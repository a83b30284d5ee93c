package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/docker/cli/cli/command/formatter"
	flagsHelper "github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// addTemplateFormat adds the flag for the format of a [listing] to a command.
func addTemplateFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", formatter.TableFormatKey, flagsHelper.FormatHelp)
	_ = cmd.RegisterFlagCompletionFunc("format", completeWords(formatter.TableFormatKey, formatter.JSONFormatKey))
}

// addTextFormat adds the flag for another format than the text that a command prints by default.
func addTextFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "", flagsHelper.InspectFormatHelp)
	_ = cmd.RegisterFlagCompletionFunc("format", completeWords(formatter.JSONFormatKey))
}

// listing is the format of a list, or of values without a table.
type listing[T any] struct {
	format   string // of the user
	table    string // of the format "table"; empty without a table
	headings headings
	row      func(T) formatter.SubContext
}

// headings are the headings of the columns by their placeholders.
type headings formatter.SubHeaderContext

// FullHeader implements [formatter.SubContext].
func (h headings) FullHeader() any { return formatter.SubHeaderContext(h) }

// noHeader is embedded in the structs that templates see, whose fields are the placeholders.
type noHeader struct{}

// FullHeader implements [formatter.SubContext].
func (noHeader) FullHeader() any { return nil }

// write prints a list as JSON, a table or with a template.
func (l listing[T]) write(out io.Writer, list []T) error {
	format := l.format
	switch format {
	case formatter.JSONFormatKey:
		if list == nil {
			list = []T{}
		}
		return writeJSON(out, list)
	case formatter.TableFormatKey:
		format = l.table
	case "":
		return errors.New("empty --format: use \"table\", \"json\" or a Go template")
	}
	ctx := formatter.Context{Output: out, Format: formatter.Format(format)}
	return ctx.Write(l.headings, func(write func(formatter.SubContext) error) error {
		for _, thing := range list {
			if err := write(l.row(thing)); err != nil {
				return err
			}
		}
		return nil
	})
}

// check returns an error for a template that no value fits, before the values are known.
func (l listing[T]) check() error {
	var zero T
	return l.writeEach(io.Discard, zero)
}

// writeEach prints a value that is not in a list, as JSON or with a template.
func (l listing[T]) writeEach(out io.Writer, value T) error {
	switch {
	case l.format == formatter.JSONFormatKey:
		return writeJSON(out, value)
	case l.table == "" && formatter.Format(l.format).IsTable():
		return fmt.Errorf("invalid --format %q: use \"json\" or a Go template", l.format)
	}
	return l.write(out, []T{value})
}

// writeJSON writes what agents may have written: it is safe for a terminal.
func writeJSON(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, termsafe.JSON(string(text))+"\n")
	return err
}

package plugin

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/docker/cli/cli/command/formatter"
)

// listing is how things of one kind are printed.
type listing[T any] struct {
	format string // the user's
	table  string // that of the format "table"
	trunc  bool
	// heading has the names of columns, and row what a template sees of a thing.
	heading formatter.SubContext
	row     func(T) formatter.SubContext
}

// write prints things: as one list in JSON, or as docker's own commands print
// theirs.
func (l listing[T]) write(out io.Writer, list []T) error {
	format := l.format
	switch format {
	case formatter.JSONFormatKey:
		if list == nil {
			list = []T{}
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(list)
	case formatter.TableFormatKey:
		format = l.table
	case "":
		return errors.New("empty --format: use \"table\", \"json\" or a Go template")
	}
	render := func(write func(formatter.SubContext) error) error {
		for _, thing := range list {
			if err := write(l.row(thing)); err != nil {
				return err
			}
		}
		return nil
	}
	ctx := formatter.Context{Output: out, Format: formatter.Format(format), Trunc: l.trunc}
	return ctx.Write(l.heading, render)
}

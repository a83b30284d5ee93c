package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest"
)

// newSelfTestCommand makes the command that tries a driver on this machine.
func newSelfTestCommand(d dispatcher) *cobra.Command {
	var driver, format string
	cmd := &cobra.Command{
		Use:   "selftest [OPTIONS]",
		Short: "Try whether sandboxes work on this machine",
		Long: `Make sandboxes, run commands in them, stop and remove them, and tell what does
not work as it should. The sandboxes are made for this and removed again; yours
are not touched. With --driver, another driver than the one that would be chosen
is tried.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show, err := resultWriter(format, d.cli.Out())
			if err != nil {
				return err
			}
			host, err := d.host(cmd, cmd.Name())
			if err != nil {
				return err
			}
			var over config.Overrides
			if driver != "" {
				over.Driver = &driver
			}
			return errors.Join(dispatch.SelfTest(cmd.Context(), host, over, show.add), show.close())
		},
	}
	cmd.Flags().StringVar(&driver, "driver", "", `Kind of sandbox: "auto", "sbx", "docker-sandbox" or "container"`)
	cmd.Flags().StringVar(&format, "format", "table", `How results are printed: "table" or "json"`)
	_ = cmd.RegisterFlagCompletionFunc("driver", completeDrivers)
	return cmd
}

// results prints what the self-test has found.
type results struct {
	out   io.Writer
	table bool
	all   []drivertest.Result
	err   error
}

func resultWriter(format string, out io.Writer) (*results, error) {
	switch format {
	case "table":
		_, err := fmt.Fprintf(out, "%-10s  %-6s  %8s  %s\n", "CHECK", "RESULT", "TIME", "WHAT FAILED")
		return &results{out: out, table: true}, err
	case "json":
		return &results{out: out, all: []drivertest.Result{}}, nil
	default:
		return nil, fmt.Errorf("unknown format %q: use \"table\" or \"json\"", format)
	}
}

// add prints a result as soon as it is there, in a table.
func (r *results) add(result drivertest.Result) {
	if !r.table {
		r.all = append(r.all, result)
		return
	}
	word := "ok"
	if !result.OK {
		word = "FAILED"
	}
	_, err := fmt.Fprintf(r.out, "%-10s  %-6s  %8s  %s\n", result.Check, word, result.Took.Round(10*time.Millisecond), result.Failed)
	r.err = errors.Join(r.err, err)
}

func (r *results) close() error {
	if r.table {
		return r.err
	}
	encoder := json.NewEncoder(r.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r.all)
}

package plugin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	flagsHelper "github.com/docker/cli/cli/flags"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/images"
)

func newImageStatusCommand(d dispatcher) *cobra.Command {
	var format, agent string
	var noTrunc bool
	cmd := &cobra.Command{
		Use:   "status [OPTIONS]",
		Short: "List sandbox images",
		Long: `List the images built by docker ralph, their bases, and the sandboxes that use them.
A star marks the image of this project's next sandbox.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := writeImages(io.Discard, format, !noTrunc, nil); err != nil {
				return err
			}
			h, err := d.imageHost(cmd, "")
			if err != nil {
				return err
			}
			list, err := images.List(cmd.Context(), h, d.statusOverrides(cmd, &agent))
			if err != nil {
				return err
			}
			return writeImages(d.cli.Out(), format, !noTrunc, list)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&agent, "agent", "", "Agent to show the next image of")
	flags.StringVar(&format, "format", formatter.TableFormatKey, flagsHelper.FormatHelp)
	flags.BoolVar(&noTrunc, "no-trunc", false, "Do not truncate output")
	_ = cmd.RegisterFlagCompletionFunc("agent", completeAgents)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{formatter.TableFormatKey, formatter.JSONFormatKey}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (d dispatcher) statusOverrides(cmd *cobra.Command, agent *string) config.Overrides {
	over := d.options.overrides()
	if cmd.Flags().Changed("agent") {
		over.Agent = agent
	}
	return over
}

const imageTable = "table {{.Image}}{{if .Current}} *{{end}}\t{{.Kind}}\t{{.Agent}}\t{{.Project}}\t{{.Base}}\t{{.CreatedSince}}\t{{.Size}}\t{{.UsedBy}}\t{{.Status}}"

func writeImages(out io.Writer, format string, trunc bool, list []images.Status) error {
	heading := &imageContext{}
	// Without "Current": the table puts no star behind a heading.
	heading.Header = formatter.SubHeaderContext{
		"Image": "IMAGE", "ID": "IMAGE ID", "Kind": "KIND", "Agent": "AGENT", "Project": "PROJECT", "Base": "BASE",
		"CreatedSince": formatter.CreatedSinceHeader, "CreatedAt": formatter.CreatedAtHeader, "Size": formatter.SizeHeader,
		"UsedBy": "USED BY", "Change": "CHANGE", "Status": formatter.StatusHeader,
	}
	row := func(image images.Status) formatter.SubContext {
		return &imageContext{image: image, trunc: trunc}
	}
	return listing[images.Status]{format: format, table: imageTable, trunc: trunc, heading: heading, row: row}.write(out, list)
}

// imageContext is an image for a template: its methods are the placeholders.
type imageContext struct {
	formatter.HeaderContext
	image images.Status
	trunc bool
}

// MarshalJSON is for "{{json .}}".
func (c *imageContext) MarshalJSON() ([]byte, error) { return formatter.MarshalJSON(c) }

// Image returns the image's name.
func (c *imageContext) Image() string { return c.image.Image }

// ID returns the engine's ID of the image.
func (c *imageContext) ID() string {
	if c.trunc {
		return formatter.TruncateID(c.image.ID)
	}
	return c.image.ID
}

// Kind returns what sort of image it is.
func (c *imageContext) Kind() string { return c.image.Kind }

// Agent returns the agent that is in it.
func (c *imageContext) Agent() string { return c.image.Agent }

// Project returns the project that it is for.
func (c *imageContext) Project() string { return c.image.Project }

// baseWidth is how much of a base's name is shown, in characters.
const baseWidth = 40

// Base returns what it is built on.
func (c *imageContext) Base() string {
	if c.trunc {
		return formatter.Ellipsis(c.image.Base, baseWidth)
	}
	return c.image.Base
}

// CreatedSince returns its age in words.
func (c *imageContext) CreatedSince() string {
	if c.image.Created == nil {
		return ""
	}
	return units.HumanDuration(time.Since(*c.image.Created)) + " ago"
}

// CreatedAt returns when it was created.
func (c *imageContext) CreatedAt() string {
	if c.image.Created == nil {
		return ""
	}
	return c.image.Created.Format(time.RFC3339)
}

// Size returns its size in words.
func (c *imageContext) Size() string {
	if c.image.ID == "" {
		return ""
	}
	return units.HumanSizeWithPrecision(float64(c.image.Size), 3)
}

// UsedBy returns who uses it.
func (c *imageContext) UsedBy() string {
	if n := len(c.image.UsedBy); c.trunc && n > 1 {
		return fmt.Sprintf("%s and %d more", c.image.UsedBy[0], n-1)
	}
	return strings.Join(c.image.UsedBy, ", ")
}

// Current reports whether the next sandbox uses it.
func (c *imageContext) Current() bool { return c.image.Current }

// Change returns what has to be done before.
func (c *imageContext) Change() string { return c.image.Change }

// Status returns the rest in words.
func (c *imageContext) Status() string { return c.image.Status }

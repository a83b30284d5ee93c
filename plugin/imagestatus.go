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

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/images"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

func newImageStatusCommand(d dispatcher) *cobra.Command {
	var format, agent string
	var noTrunc bool
	cmd := &cobra.Command{
		Use:     "status [OPTIONS]",
		Aliases: []string{"ls"},
		Short:   "List sandbox images",
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
	addTemplateFormat(cmd, &format)
	flags.BoolVar(&noTrunc, "no-trunc", false, "Don't truncate output")
	_ = cmd.RegisterFlagCompletionFunc("agent", completeWords(projectimage.Agents()...))
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
	// Without "Current": the table puts no star behind a heading.
	names := headings{
		"Image": "IMAGE", "ID": "IMAGE ID", "Kind": "KIND", "Agent": "AGENT", "Project": "PROJECT", "Base": "BASE",
		"CreatedSince": formatter.CreatedSinceHeader, "CreatedAt": formatter.CreatedAtHeader, "Size": formatter.SizeHeader,
		"UsedBy": "USED BY", "Change": "CHANGE", "Status": formatter.StatusHeader,
	}
	row := func(image images.Status) formatter.SubContext { return newImageRow(image, trunc) }
	return listing[images.Status]{format, imageTable, names, row}.write(out, list)
}

// imageRow is an image for a template.
type imageRow struct {
	noHeader
	Image, ID, Kind, Agent, Project, Base, CreatedSince, CreatedAt, Size, UsedBy string

	Current bool   // the next sandbox uses it
	Change  string // what has to be done before
	Status  string
}

// baseWidth is the truncated length of a base's name, in characters.
const baseWidth = 40

func newImageRow(image images.Status, trunc bool) formatter.SubContext {
	r := &imageRow{
		Image: image.Image, ID: image.ID, Kind: image.Kind, Agent: image.Agent, Project: image.Project, Base: image.Base,
		UsedBy: strings.Join(image.UsedBy, ", "), Current: image.Current, Change: image.Change, Status: image.Status,
	}
	if trunc {
		r.ID, r.Base = formatter.TruncateID(image.ID), formatter.Ellipsis(image.Base, baseWidth)
		if n := len(image.UsedBy); n > 1 {
			r.UsedBy = fmt.Sprintf("%s and %d more", image.UsedBy[0], n-1)
		}
	}
	if image.Created != nil {
		r.CreatedSince, r.CreatedAt = units.HumanDuration(time.Since(*image.Created))+" ago", image.Created.Format(time.RFC3339)
	}
	if image.ID != "" {
		r.Size = units.HumanSizeWithPrecision(float64(image.Size), 3)
	}
	return r
}

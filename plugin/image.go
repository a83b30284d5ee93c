package plugin

import (
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/images"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// newImageCommand returns the commands for the images of sandboxes.
func newImageCommand(d dispatcher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image COMMAND",
		Short: "Manage sandbox images",
		Long: `Manage the images that sandboxes are created from. Other commands build or pull the
image that they need.`,
		Args: knownCommand,
		RunE: needsCommand(d.cli),
	}
	cmd.AddCommand(newImageBuildCommand(d), newImagePullCommand(d), newImageStatusCommand(d), newImagePruneCommand(d))
	return cmd
}

// buildOptions are the flags of "image build".
type buildOptions struct {
	agent, base, platform, progress string
	pull, noCache                   bool
	secrets                         []string
}

func newImageBuildCommand(d dispatcher) *cobra.Command {
	var opts buildOptions
	cmd := &cobra.Command{
		Use:   "build [OPTIONS]",
		Short: "Build the image of this project's sandboxes",
		Long: `Build the image for the next sandbox of this project, unless it exists, and print
its name. It is the agent image with .agent-loop/Dockerfile.sandbox or
.agent-loop/dependencies on top. Outside a git repository, build the agent image.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.buildImage(cmd, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.agent, "agent", "", "Agent to build the image for")
	flags.StringVar(&opts.base, "base", "", "Base of the agent image")
	flags.BoolVar(&opts.noCache, "no-cache", false, "Do not use cache when building the image")
	flags.StringVar(&opts.platform, "platform", "", `Platform of the image (e.g., "linux/arm64")`)
	flags.BoolVar(&opts.pull, "pull", false, "Always attempt to pull a newer version of the base")
	flags.StringArrayVar(&opts.secrets, "secret", nil, `Secret to expose to the build ("id=ID,src=FILE", "id=ID,env=VARIABLE")`)
	addProgress(cmd, &opts.progress)
	_ = cmd.RegisterFlagCompletionFunc("agent", completeWords(projectimage.Agents()...))
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("base", cobra.NoFileCompletions)
	return cmd
}

func (d dispatcher) buildImage(cmd *cobra.Command, opts buildOptions) error {
	build := images.BuildOptions{Overrides: d.options.overrides(), Platform: opts.platform, Pull: opts.pull, NoCache: opts.noCache}
	if cmd.Flags().Changed("agent") {
		build.Overrides.Agent = &opts.agent
	}
	if cmd.Flags().Changed("base") {
		build.Overrides.Base = &opts.base
	}
	for _, text := range opts.secrets {
		secret, err := projectimage.ParseSecret(text)
		if err != nil {
			return err
		}
		build.Secrets = append(build.Secrets, secret)
	}
	h, err := d.imageHost(cmd, opts.progress)
	if err != nil {
		return err
	}
	ref, err := images.Build(cmd.Context(), h, build)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.cli.Out(), ref)
	return err
}

func newImagePullCommand(d dispatcher) *cobra.Command {
	var platform, progress string
	cmd := &cobra.Command{
		Use:        "pull [OPTIONS] [IMAGE]",
		SuggestFor: []string{"pull"},
		Short:      "Pull an image for sandboxes",
		Long: `Pull an image with the credentials of "docker login", and print its name. The
default is the configured image, or else the base of the agent image.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := d.imageHost(cmd, progress)
			if err != nil {
				return err
			}
			ref, err := images.Pull(cmd.Context(), h, d.options.overrides(), append(args, "")[0], platform)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(d.cli.Out(), ref)
			return err
		},
	}
	cmd.Flags().StringVar(&platform, "platform", "", `Platform of the image (e.g., "linux/arm64")`)
	addProgress(cmd, &progress)
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.NoFileCompletions)
	return cmd
}

// pruneOptions are the flags of "image prune".
type pruneOptions struct {
	all, dryRun, force bool
	filters            []string
}

func newImagePruneCommand(d dispatcher) *cobra.Command {
	var opts pruneOptions
	cmd := &cobra.Command{
		Use:        "prune [OPTIONS]",
		SuggestFor: []string{"rmi"},
		Short:      "Remove unused images",
		Long: `Remove images built by docker ralph that no container uses, and print their names.
Images that the next sandbox of this project needs are kept. Other images are never
removed.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.pruneImages(cmd, opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.all, "all", "a", false, "Also remove images that this project needs")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "Print what would be removed")
	flags.BoolVarP(&opts.force, "force", "f", false, "Do not prompt for confirmation")
	flags.StringArrayVar(&opts.filters, "filter", nil, `Filter images ("agent=NAME", "project=NAME", "until=DURATION")`)
	_ = cmd.RegisterFlagCompletionFunc("filter", cobra.FixedCompletions([]string{"agent=", "project=", "until="}, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (d dispatcher) pruneImages(cmd *cobra.Command, opts pruneOptions) error {
	var filter projectimage.Filter
	for _, condition := range opts.filters {
		if err := filter.Set(condition); err != nil {
			return err
		}
	}
	h, err := d.imageHost(cmd, "")
	if err != nil {
		return err
	}
	names, err := images.Prune(cmd.Context(), h, images.PruneOptions{
		Overrides: d.options.overrides(), Filter: filter, All: opts.all, DryRun: opts.dryRun, Force: opts.force,
	})
	for _, name := range names {
		_, _ = fmt.Fprintln(d.cli.Out(), name)
	}
	return err
}

// imageHost returns the host of a command for images, with its own --progress
// unless that is empty.
func (d dispatcher) imageHost(cmd *cobra.Command, progress string) (host.Host, error) {
	if progress != "" {
		own := *d.options
		own.progress.value = progress
		d.options = &own
	}
	return d.host(cmd, "image")
}

func addProgress(cmd *cobra.Command, progress *string) {
	cmd.Flags().StringVar(progress, "progress", "", `Type of progress output ("auto", "plain", "tty", "quiet", "rawjson")`)
	_ = cmd.RegisterFlagCompletionFunc("progress", completeWords(modeNames()...))
}

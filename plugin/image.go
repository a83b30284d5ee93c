package plugin

import (
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/dispatch"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// newImageCommand makes the commands about the images of sandboxes.
func newImageCommand(d dispatcher) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image COMMAND",
		Short: "Build, fetch, list and remove the images of sandboxes",
		Long: `Build, fetch, list and remove the images that sandboxes are made from. Nothing of
this has to be done by hand: a dispatch builds or fetches the image that it needs.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(d.cli.Err())
			if err := cmd.Help(); err != nil {
				return err
			}
			return fmt.Errorf("%s needs a command", cmd.CommandPath())
		},
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
		Long: `Build the image that the next sandbox of this project would be made from, unless
it is there already, and print its name: the image of the agent and, on it, what
.agent-loop/Dockerfile.sandbox or .agent-loop/dependencies adds. Outside of a git
repository it is the agent's image alone.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.buildImage(cmd, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.agent, "agent", "", "Build for this agent instead of the configured one")
	flags.StringVar(&opts.base, "base", "", "Build the agent's image on this one")
	flags.BoolVar(&opts.noCache, "no-cache", false, "Build everything anew")
	flags.StringVar(&opts.platform, "platform", "", `Build for this platform, such as "linux/arm64"`)
	flags.BoolVar(&opts.pull, "pull", false, "Fetch the base again, and build on it")
	flags.StringArrayVar(&opts.secrets, "secret", nil, `Secret for RUN --mount=type=secret: "id=ID,src=FILE" or "id=ID,env=VARIABLE"`)
	addProgress(cmd, &opts.progress)
	_ = cmd.RegisterFlagCompletionFunc("agent", completeAgents)
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("base", cobra.NoFileCompletions)
	return cmd
}

func (d dispatcher) buildImage(cmd *cobra.Command, opts buildOptions) error {
	build := dispatch.ImageBuild{Overrides: d.options.overrides(), Platform: opts.platform, Pull: opts.pull, NoCache: opts.noCache}
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
	host, err := d.imageHost(cmd, opts.progress)
	if err != nil {
		return err
	}
	ref, err := dispatch.BuildImage(cmd.Context(), host, build)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.cli.Out(), ref)
	return err
}

func newImagePullCommand(d dispatcher) *cobra.Command {
	var platform, progress string
	cmd := &cobra.Command{
		Use:   "pull [OPTIONS] [IMAGE]",
		Short: "Fetch an image for sandboxes",
		Long: `Fetch an image from its registry, with the credentials of "docker login", and
print its name. Without IMAGE it is the one that is configured to be used as it
is or, when there is none, the base of the agent's image.`,
		Args:              cli.RequiresMaxArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := d.imageHost(cmd, progress)
			if err != nil {
				return err
			}
			ref, err := dispatch.PullImage(cmd.Context(), host, d.options.overrides(), append(args, "")[0], platform)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(d.cli.Out(), ref)
			return err
		},
	}
	cmd.Flags().StringVar(&platform, "platform", "", `Fetch the image for this platform, such as "linux/arm64"`)
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
		Use:   "prune [OPTIONS]",
		Short: "Remove the images that no sandbox uses",
		Long: `Remove the images that docker ralph has built and that neither a sandbox nor
another container uses, and print their names. Those that the next sandbox of
this project needs stay, and those that an image in use is built on. Images of
others are never removed. A sandbox that needs a removed image again has it
built anew.`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.pruneImages(cmd, opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.all, "all", "a", false, "Also remove what this project's next sandbox needs")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "Only print what would be removed")
	flags.BoolVarP(&opts.force, "force", "f", false, "Do not ask")
	flags.StringArrayVar(&opts.filters, "filter", nil, `Only images with "agent=NAME", "project=NAME" or older than "until=DURATION"`)
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
	host, err := d.imageHost(cmd, "")
	if err != nil {
		return err
	}
	names, err := dispatch.PruneImages(cmd.Context(), host, dispatch.ImagePrune{
		Overrides: d.options.overrides(), Filter: filter, All: opts.all, DryRun: opts.dryRun, Force: opts.force,
	})
	for _, name := range names {
		_, _ = fmt.Fprintln(d.cli.Out(), name)
	}
	return err
}

// imageHost is the host of a command about images, with a --progress of its own
// unless that is empty.
func (d dispatcher) imageHost(cmd *cobra.Command, progress string) (dispatch.Host, error) {
	if progress != "" {
		own := *d.options
		own.progress = progress
		d.options = &own
	}
	return d.host(cmd, "image")
}

func addProgress(cmd *cobra.Command, progress *string) {
	cmd.Flags().StringVar(progress, "progress", "", `How it is shown: "auto", "plain", "tty", "quiet" or "rawjson"`)
	_ = cmd.RegisterFlagCompletionFunc("progress", completeProgress)
}

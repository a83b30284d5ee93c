package plugin

import (
	"github.com/moby/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ExitCodes is the annotation of a command for text at the end of its help.
const ExitCodes = "exit-codes"

// optionGroup is the annotation of a flag for the section of help that lists it.
const optionGroup = "group"

// The sections of options for the sandbox.
const (
	sandboxOptions  = "Sandbox options"
	advancedOptions = "Advanced options"
)

// group assigns options to a section.
func group(flags *pflag.FlagSet, section string, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, optionGroup, []string{section})
	}
}

// groupOptions makes help list the options for the sandbox in sections of their own, below what
// Docker's template prints. The help of root lists the common ones only.
func groupOptions(root *cobra.Command) {
	render := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		var grouped []*pflag.Flag
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if section := f.Annotations[optionGroup]; len(section) > 0 && !f.Hidden && (cmd != root || section[0] == advancedOptions) {
				grouped = append(grouped, f)
			}
		})
		hide := func(hidden bool) {
			for _, f := range grouped {
				f.Hidden = hidden
			}
		}
		hide(true)
		err := render(cmd)
		hide(false)
		if cmd == root || err != nil {
			return err
		}
		for _, section := range []string{sandboxOptions, advancedOptions} {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			for _, f := range grouped {
				if f.Annotations[optionGroup][0] == section {
					flags.AddFlag(f)
				}
			}
			if flags.HasFlags() {
				cmd.Printf("\n%s:\n%s", section, flags.FlagUsagesWrapped(width()-1))
			}
		}
		if text := cmd.Annotations[ExitCodes]; text != "" {
			cmd.Println("\n" + text)
		}
		return nil
	})
}

// width is the width of help, as in the Docker CLI.
func width() int {
	if size, err := term.GetWinsize(0); err == nil {
		return int(size.Width)
	}
	return 80
}

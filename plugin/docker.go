package plugin

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli-plugins/manager"
	"github.com/docker/cli/cli-plugins/metadata"
	"github.com/docker/cli/cli-plugins/plugin"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/hint"
)

// requireDocker makes sure that there is a Docker CLI. One that has started
// us is enough.
func requireDocker() error {
	if plugin.RunningStandalone() && dockerProgram() == "" {
		return hint.Wrap(errors.New("the docker command is not on PATH"), "install Docker Engine (https://docs.docker.com/engine/install/) or Docker Desktop")
	}
	return nil
}

// dockerProgram is the Docker CLI that has started us, or else the one on PATH;
// empty if there is none. When it has us complete a command line, the Docker CLI
// names us instead of itself.
func dockerProgram() string {
	if path := os.Getenv(metadata.ReexecEnvvar); path != "" && !isOurselves(path) {
		return path
	}
	path, err := exec.LookPath("docker")
	if err != nil {
		return ""
	}
	return path
}

func isOurselves(path string) bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	ours, err := os.Stat(self)
	if err != nil {
		return false
	}
	theirs, err := os.Stat(path)
	return err == nil && os.SameFile(ours, theirs)
}

// hasPlugin reports whether Docker finds a plugin of that name. It has found this one
// in one of its folders, wherever those are.
func hasPlugin(cli config.Provider, name string) bool {
	_, err := manager.GetPlugin(name, cli, &cobra.Command{})
	if !errdefs.IsNotFound(err) {
		return true
	}
	beside := filepath.Join(filepath.Dir(os.Args[0]), "docker-"+name+filepath.Ext(os.Args[0]))
	_, err = os.Stat(beside)
	return err == nil
}

// dockerGlobals are the options that the Docker CLI was given which say where
// its configuration and its engine are. They were parsed by another set of
// flags, so that this one knows them only by what they have in common.
func dockerGlobals(cmd *cobra.Command) []string {
	var globals []string
	cmd.Root().Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "config", "context", "host", "tls", "tlscacert", "tlscert", "tlskey", "tlsverify":
			if f.Changed {
				globals = append(globals, "--"+f.Name+"="+f.Value.String())
			}
		}
	})
	return globals
}

// ourselves returns a command line of this plugin, with the state directory and
// configuration of this process.
func ourselves(cfg *configfile.ConfigFile, globals []string, command string) []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	args := append([]string{self}, globals...)
	return append(args, "--config="+filepath.Dir(cfg.GetFilename()), "ralph", command)
}

// stateDir is the plugin's folder below Docker's configuration folder.
func stateDir(cfg *configfile.ConfigFile) string {
	dir := filepath.Join(filepath.Dir(cfg.GetFilename()), "ralph")
	if abs, err := filepath.Abs(dir); err == nil { // DOCKER_CONFIG need not be, but what is mounted has to
		return abs
	}
	return dir
}

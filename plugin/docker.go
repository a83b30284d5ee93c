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

// requireDocker checks that there is a Docker CLI, unless it started this plugin.
func requireDocker() error {
	if plugin.RunningStandalone() && dockerProgram() == "" {
		return hint.Wrap(errors.New("the docker command is not on PATH"), "install Docker Engine (https://docs.docker.com/engine/install/) or Docker Desktop")
	}
	return nil
}

// dockerProgram returns the Docker CLI that started this plugin, or else the one on
// PATH, or "". For completion, the Docker CLI passes the plugin's path instead of its
// own.
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

// hasPlugin reports whether Docker finds a plugin of that name, possibly in the
// directory of this one.
func hasPlugin(cli config.Provider, name string) bool {
	_, err := manager.GetPlugin(name, cli, &cobra.Command{})
	if !errdefs.IsNotFound(err) {
		return true
	}
	beside := filepath.Join(filepath.Dir(os.Args[0]), "docker-"+name+filepath.Ext(os.Args[0]))
	_, err = os.Stat(beside)
	return err == nil
}

// dockerGlobals returns the options of the Docker CLI for its configuration and engine.
// Another flag set has parsed them; the root command shares its flags.
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

// stateDir returns the plugin's directory in Docker's configuration directory.
func stateDir(cfg *configfile.ConfigFile) string {
	dir := filepath.Join(filepath.Dir(cfg.GetFilename()), "ralph")
	if abs, err := filepath.Abs(dir); err == nil { // DOCKER_CONFIG can be relative; mounts cannot
		return abs
	}
	return dir
}

package guest

import (
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/wire"
)

// SetDefaults completes the environment of a command in a sandbox. Outside of one, it does
// nothing.
func SetDefaults() {
	if os.Getenv(wire.DispatchEnv) == "" {
		return
	}
	env := parseEnviron(os.Environ())
	completeEnv(env)
	os.Clearenv()
	for name, value := range env {
		_ = os.Setenv(name, value) // its name and value are those of an environment
	}
}

// completeEnv sets a locale with UTF-8 if there is none, and removes directories that
// programs would take literally and that are none: a temporary directory of the host, and
// the empty and relative ones that an image can only set, not remove.
func completeEnv(env map[string]string) {
	if env["LC_ALL"] == "" && env["LC_CTYPE"] == "" && env["LANG"] == "" {
		env["LANG"] = "C.UTF-8"
	}
	if dir, set := env["TMPDIR"]; set {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
			delete(env, "TMPDIR")
		}
	}
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if !filepath.IsAbs(env[name]) {
			delete(env, name)
		}
	}
}

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
)

// cacheDirs lists the directories that package managers do not create themselves.
func cacheDirs() []string {
	return []string{
		"npm", "pnpm/store", "yarn", "pip", "uv", "cargo", "go/mod", "go/build",
		"apt/cache/archives/partial", "apt/lists/partial",
	}
}

// createCaches creates missing cache directories in dir, and configuration files for apt
// and pnpm, which cannot be configured by environment variables.
func createCaches(dir, home string) error {
	for _, name := range cacheDirs() {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return fmt.Errorf("creating the cache directory: %w", err)
		}
	}
	apt := filepath.Join(dir, "apt")
	for path, content := range map[string]string{
		filepath.Join(apt, "apt.conf"): fmt.Sprintf("Dir::Cache %q;\nDir::State::lists %q;\n", filepath.Join(apt, "cache"), filepath.Join(apt, "lists")),
		// The variable of pnpm before 11 makes npm print a warning.
		filepath.Join(home, ".config", "pnpm", "rc"): "store-dir=" + filepath.Join(dir, "pnpm", "store") + "\n",
	} {
		if err := writeOnce(path, content); err != nil {
			return fmt.Errorf("setting up caches: %w", err)
		}
	}
	return nil
}

func writeOnce(path, content string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, []byte(content), 0o644)
}

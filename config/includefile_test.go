//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

func TestReadIncludeFile(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{name: "none"},
		{name: "patterns", text: "# local settings\n.env*\r\n\n!.env.production\n  /certs/*.pem\n\\#x", want: []string{".env*", "!.env.production", "  /certs/*.pem", "\\#x"}},
		{name: "only comments", text: "#a\n \n"},
		{name: "too large", text: strings.Repeat("x\n", maxFile), err: "larger than"},
		{name: "binary", text: "a\x00b", err: "NUL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			if tc.text != "" {
				assert.NilError(t, os.WriteFile(filepath.Join(root, IncludeFile), []byte(tc.text), 0o644))
			}
			got, err := ReadIncludeFile(root)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func TestIncludeFileThatIsNoFile(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"link out":  func(path string) error { return os.Symlink("/etc/passwd", path) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			assert.NilError(t, create(filepath.Join(root, IncludeFile)))
			_, err := ReadIncludeFile(root)
			assert.ErrorContains(t, err, IncludeFile)
		})
	}
}

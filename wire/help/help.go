// Package help has the help texts of the forwarded commands, for the plugin on the
// host and ralph in the sandbox.
package help

import (
	"embed"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

//go:embed *.txt
var texts embed.FS

// Text returns the help of "ralph", "docker", "task" or "install-layout", ending with a newline; for any other name it returns the empty string.
func Text(command string) string {
	b, err := texts.ReadFile(command + ".txt")
	if err != nil {
		return ""
	}
	return string(b)
}

var ralphCommand = lazyregexp.New(`(docker )?\bralph (plan|build|run|shell|task)\b`)

// OnHost returns a help text as "docker ralph" prints it.
func OnHost(text string) string { return ralphCommand().ReplaceAllString(text, "docker ralph $2") }

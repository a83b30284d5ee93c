// Package help has the help texts of the forwarded commands, for the plugin on the
// host and ralph in the sandbox.
package help

import (
	"embed"
	"slices"
	"strings"

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

// scriptCommands is the heading of the task commands that are not for users.
const scriptCommands = "For agents and scripts:\n"

// Task returns the help of "docker ralph task" for users, which only names the other commands.
func Task() string {
	users, others, _ := strings.Cut(Text("task"), scriptCommands)
	others, rest, _ := strings.Cut(others, "\n\n")
	var names []string
	for line := range strings.Lines(others) {
		if name := entry(line); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	const width = 7 // names a line
	list := ""
	for some := range slices.Chunk(names, width) {
		list += "  " + strings.Join(some, ", ") + "\n"
	}
	users = strings.Replace(users, "Usage: ralph task <command> [options]", "Usage:  ralph task COMMAND [OPTIONS]", 1)
	return OnHost(users) + scriptCommands + list + "\nRun 'docker ralph task COMMAND --help' for more information on a command.\n\n" + OnHost(rest)
}

// TaskCommand returns the help of one of the task commands; empty for an unknown one.
func TaskCommand(name string) string {
	text, in := "", false
	for line := range strings.Lines(Text("task")) {
		if first := entry(line); first != "" || strings.TrimSpace(line) == "" {
			in = first == name && name != ""
		}
		if in {
			text += line
		}
	}
	if text == "" {
		return ""
	}
	return "Usage:  docker ralph task COMMAND\n\n" + OnHost(text)
}

// entry returns the command whose description begins with a line, or "".
func entry(line string) string {
	text, indented := strings.CutPrefix(line, "  ")
	if !indented || strings.HasPrefix(text, " ") {
		return ""
	}
	return strings.Fields(text)[0]
}

// Package metadata tells the Docker CLI what this plugin is.
//
// The CLI asks in a process of its own before every command, and the user waits for
// it. The answer needs nothing of the rest of the program, so it does not wait for
// that: Go initializes packages in the order in which what they import is there, and
// this one imports next to nothing. It answers in its turn, and the process ends.
// See https://go.dev/ref/spec#Program_initialization.
package metadata

import (
	"encoding/json"
	"io"
	"os"

	"github.com/docker/cli/cli-plugins/metadata"
)

// Short is what "docker ralph" does, in one line.
const Short = "Run a coding agent in a loop, in a sandbox"

// Version is set by the build; empty in a program that was built without the
// Makefile. What that one's version is, only packages can tell that come later, and
// so it answers later.
var Version = ""

func init() {
	if Version != "" && len(os.Args) == 2 && os.Args[1] == metadata.MetadataSubcommandName {
		code := 0
		if err := answer(os.Stdout); err != nil {
			_, _ = io.WriteString(os.Stderr, "Error: telling the Docker CLI what docker-ralph is: "+err.Error()+"\n")
			code = 1
		}
		os.Exit(code) //nolint:forbidigo // there is no main yet
	}
}

// Of is what the Docker CLI learns about the plugin of a version.
func Of(version string) metadata.Metadata {
	return metadata.Metadata{
		SchemaVersion:    "0.1.0",
		Vendor:           "docker-ralph",
		Version:          version,
		ShortDescription: Short,
		URL:              "https://github.com/docker-ralph/docker-ralph",
	}
}

// answer writes the metadata as the CLI's own library does.
func answer(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "     ")
	return enc.Encode(Of(Version))
}

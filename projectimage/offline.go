package projectimage

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// checkOffline rejects what a build without a network cannot do, or does with the network of
// the engine.
func (p *Project) checkOffline() error {
	switch {
	case !p.NoNetwork:
		return nil
	case !p.own():
		return hint.Wrap(fmt.Errorf("building %s: installing packages needs a network, and [image] network is \"none\"", p.File),
			"set [image] network to \"default\", or use a base image that has the packages")
	}
	result, err := parser.Parse(bytes.NewReader(p.Dockerfile))
	if err != nil {
		return refuse(p.File, termsafe.Visible(err.Error()))
	}
	return checkAdds(p.File, result.AST.Children)
}

// checkAdds rejects ADD instructions that may fetch something, which the engine does itself.
func checkAdds(file string, nodes []*parser.Node) error {
	for _, node := range nodes {
		switch strings.ToLower(node.Value) {
		case "onbuild":
			if node.Next == nil {
				continue
			}
			for _, child := range node.Next.Children {
				child.StartLine = node.StartLine // not set by the parser
			}
			if err := checkAdds(file, node.Next.Children); err != nil {
				return err
			}
		case "add":
			for source := node.Next; source != nil && source.Next != nil; source = source.Next {
				if !local(source.Value) {
					return &FileError{Path: file, Line: node.StartLine, Message: termsafe.Visible(fmt.Sprintf(
						"ADD %s: [image] network is \"none\", so only files of %s can be added, by their plain names", source.Value, projectFolder))}
				}
			}
		}
	}
	return nil
}

// local reports whether a source of ADD is certainly a file of the context.
func local(source string) bool {
	return !strings.ContainsAny(source, ":@$\\`'\"")
}

package projectimage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// baseArgument is the build argument that names the agent's image.
const baseArgument = "BASE_IMAGE"

// readLayer looks into a project's own Dockerfile, and tells whether the image's
// user is the agent's. What is wrong with single instructions is left to BuildKit,
// which knows all of them and shows the line.
func readLayer(file string, dockerfile []byte) (sandboxUser bool, _ error) {
	result, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return false, newSyntaxError(file, err)
	}
	stages, arguments := splitStages(result.AST.Children)
	if len(stages) == 0 {
		return false, refuse(file, "it has no FROM: begin it with ARG BASE_IMAGE and FROM ${BASE_IMAGE}")
	}
	chain, base := lineage(stages, arguments, result.EscapeToken)
	if base != baseImage {
		from := chain[len(chain)-1].from
		return false, &FileError{Path: file, Line: from.StartLine, Message: printable.Visible(fmt.Sprintf(
			"the image is built on %q and not on the agent's image, so there would be no agent in it: "+
				"write ARG BASE_IMAGE in the first line and FROM ${BASE_IMAGE} here, or use an image as it is with --image IMAGE", word(from, 0)))}
	}
	if err := checkEntitlements(file, result.AST.Children); err != nil {
		return false, err
	}
	return endsAsAgent(chain), nil
}

// stage is a FROM and what follows it.
type stage struct {
	from  *parser.Node
	name  string // in lower case; empty for none
	steps []*parser.Node
}

// splitStages returns the stages, and the ARGs before the first one.
func splitStages(nodes []*parser.Node) (stages []stage, arguments []*parser.Node) {
	for _, node := range nodes {
		instruction := strings.ToLower(node.Value)
		switch {
		case instruction == "from":
			name := ""
			if strings.EqualFold(word(node, 1), "as") {
				name = strings.ToLower(word(node, 2))
			}
			stages = append(stages, stage{from: node, name: name})
		case len(stages) > 0:
			last := &stages[len(stages)-1]
			last.steps = append(last.steps, node)
		case instruction == "arg":
			arguments = append(arguments, node)
		}
	}
	return stages, arguments
}

// word returns an instruction's argument, counted from 0, and "" for none.
func word(node *parser.Node, n int) string {
	for node = node.Next; node != nil; node = node.Next {
		if n == 0 {
			return node.Value
		}
		n--
	}
	return ""
}

// baseImage stands for the agent's image where its name is filled in. No image
// can be called so.
const baseImage = "<" + baseArgument + ">"

// lineage returns the last stage and those that it is built on, and the image
// that the first of these is built on.
func lineage(stages []stage, arguments []*parser.Node, escape rune) (chain []stage, base string) {
	lex, values := shell.NewLex(escape), metaArguments{}
	values.declare(lex, arguments)
	at := len(stages) - 1
	for {
		chain = append(chain, stages[at])
		base, _, _ = lex.ProcessWord(word(stages[at].from, 0), values)
		parent := at - 1 // of stages with one name, the nearest one counts
		for parent >= 0 && (stages[parent].name == "" || stages[parent].name != strings.ToLower(base)) {
			parent--
		}
		if parent < 0 {
			return chain, base
		}
		at = parent
	}
}

// metaArguments are the arguments that are declared before the first FROM.
type metaArguments map[string]string

func (m metaArguments) declare(lex *shell.Lex, arguments []*parser.Node) {
	for _, node := range arguments {
		for argument := node.Next; argument != nil; argument = argument.Next {
			name, value, _ := strings.Cut(argument.Value, "=")
			m[name], _, _ = lex.ProcessWord(value, m)
			if name == baseArgument {
				m[name] = baseImage
			}
		}
	}
}

// Get implements [shell.EnvGetter].
func (m metaArguments) Get(name string) (string, bool) { v, ok := m[name]; return v, ok }

// Keys implements [shell.EnvGetter].
func (m metaArguments) Keys() []string {
	var all []string
	for key := range m {
		all = append(all, key)
	}
	return all
}

// triggered returns the instruction that an ONBUILD is for.
func triggered(node *parser.Node) []*parser.Node {
	if node.Next == nil {
		return nil
	}
	for _, child := range node.Next.Children {
		child.StartLine = node.StartLine // the parser leaves it out
	}
	return node.Next.Children
}

// endsAsAgent tells whether the last USER of the stages, from the last one
// down to the agent's image, is the agent's user.
func endsAsAgent(chain []stage) bool {
	for _, s := range chain {
		for _, node := range slices.Backward(s.steps) {
			if strings.EqualFold(node.Value, "user") {
				name, _, _ := strings.Cut(word(node, 0), ":")
				return name == "agent" || name == "1000"
			}
		}
	}
	return true
}

// checkEntitlements refuses steps that ask for more than others get. No build
// is given it, but BuildKit's own words for that are few, and differ.
func checkEntitlements(file string, nodes []*parser.Node) error {
	for _, node := range nodes {
		if strings.EqualFold(node.Value, "onbuild") {
			if err := checkEntitlements(file, triggered(node)); err != nil {
				return err
			}
		}
		for _, flag := range node.Flags {
			if flag = strings.ToLower(flag); flag == "--network=host" || flag == "--security=insecure" {
				return &FileError{Path: file, Line: node.StartLine, Message: fmt.Sprintf(
					"%s %s is not allowed: a repository's Dockerfile is built without the host's network and without more rights, so take %s off",
					strings.ToUpper(node.Value), flag, flag)}
			}
		}
	}
	return nil
}

// newSyntaxError puts the place before what is wrong with a Dockerfile.
func newSyntaxError(file string, err error) error {
	line := 0
	if located, ok := errors.AsType[*parser.LocationError](err); ok && len(located.Locations) > 0 && len(located.Locations[0]) > 0 {
		line = located.Locations[0][0].Start.Line
	}
	return &FileError{Path: file, Line: line, Message: printable.Visible(err.Error())}
}

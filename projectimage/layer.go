package projectimage

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// baseArgument is the build argument that names the agent's image.
const baseArgument = "BASE_IMAGE"

// layer is what matters about a project's Dockerfile before it is built.
type layer struct {
	sources     []string // paths in the context that end up in the image, or decide what does
	sandboxUser bool     // the image's user is the agent's
}

// readLayer looks into a project's own Dockerfile. What is wrong with single
// instructions is left to BuildKit, which knows all of them and shows the line.
func readLayer(file string, dockerfile []byte) (layer, error) {
	result, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return layer{}, newSyntaxError(file, err)
	}
	stages, arguments := splitStages(result.AST.Children)
	if len(stages) == 0 {
		return layer{}, refuse(file, "it has no FROM: begin it with ARG BASE_IMAGE and FROM ${BASE_IMAGE}")
	}
	chain, base := lineage(stages, arguments, result.EscapeToken)
	if base != baseImage {
		from := chain[len(chain)-1].from
		return layer{}, &FileError{Path: file, Line: from.StartLine, Message: visible(fmt.Sprintf(
			"the image is built on %q and not on the agent's image, so there would be no agent in it: "+
				"write ARG BASE_IMAGE in the first line and FROM ${BASE_IMAGE} here, or use an image as it is with --image IMAGE", word(from, 0)))}
	}
	if err := checkEntitlements(file, result.AST.Children); err != nil {
		return layer{}, err
	}
	facts := layer{sandboxUser: endsAsAgent(chain)}
	for _, node := range result.AST.Children {
		facts.sources = append(facts.sources, contextSources(node)...)
	}
	if slices.Contains(facts.sources, wholeContext) {
		facts.sources = []string{wholeContext}
	}
	return facts, nil
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

// wholeContext is the source that stands for all files.
const wholeContext = "."

// contextSources returns what an instruction takes from the context.
func contextSources(node *parser.Node) (sources []string) {
	switch strings.ToLower(node.Value) {
	case "copy", "add":
		if slices.ContainsFunc(node.Flags, func(flag string) bool { return strings.HasPrefix(flag, "--from=") }) {
			return nil
		}
		// The last word is where to.
		for source := node.Next; source != nil && source.Next != nil; source = source.Next {
			if !remote(source.Value) && !heredoc(source.Value) {
				sources = append(sources, contextPath(source.Value))
			}
		}
	case "run":
		for _, flag := range node.Flags {
			if source, ok := mountedSource(flag); ok {
				sources = append(sources, source)
			}
		}
	case "onbuild": // done by a later stage that is built on this one
		for _, done := range triggered(node) {
			sources = append(sources, contextSources(done)...)
		}
	}
	return sources
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

// contextPath returns a source as a path in the context. One that has to be
// worked out first may be any of it.
func contextPath(source string) string {
	if strings.ContainsAny(source, "$\\`'\"") {
		return wholeContext
	}
	if inside := path.Join("/", source)[1:]; inside != "" {
		return inside
	}
	return wholeContext
}

// mountedSource returns what a flag of RUN mounts of the context, and false for
// nothing.
func mountedSource(flag string) (string, bool) {
	mount, ok := strings.CutPrefix(flag, "--mount=")
	if !ok {
		return "", false
	}
	fields, err := csv.NewReader(strings.NewReader(mount)).Read()
	if err != nil {
		return wholeContext, true
	}
	kind, from, source := "bind", "", ""
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "type":
			kind = strings.ToLower(value)
		case "from":
			from = value
		case "source", "src":
			source = value
		}
	}
	// A kind that an argument fills in may be this one.
	return contextPath(source), from == "" && (kind == "bind" || strings.Contains(kind, "$"))
}

// remote tells whether ADD fetches a source.
func remote(source string) bool {
	return slices.ContainsFunc([]string{"http://", "https://", "git://", "ssh://", "git@"}, func(prefix string) bool {
		return strings.HasPrefix(source, prefix)
	})
}

// heredoc tells whether a source stands in the Dockerfile itself.
func heredoc(source string) bool {
	found, err := parser.ParseHeredoc(source)
	return err == nil && found != nil
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
	return &FileError{Path: file, Line: line, Message: visible(err.Error())}
}

package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is the text of one configuration file.
type document struct {
	path   string
	from   OriginKind // FromRepository or FromUser
	text   []byte
	starts []int // offset of each line's first byte
}

func newDocument(path string, from OriginKind, text []byte) document {
	d := document{path: path, from: from, text: text, starts: []int{0}}
	for i, c := range text {
		if c == '\n' {
			d.starts = append(d.starts, i+1)
		}
	}
	return d
}

// line is the number of the line, from 1, that an offset is in.
func (d document) line(offset int) int {
	after, _ := slices.BinarySearch(d.starts, offset+1)
	return after
}

// maxDepth is how many components of a key are kept. No known key has as many,
// so that a longer one is refused all the same.
const maxDepth = 8

// part is one component of a key.
type part struct {
	name string
	at   span
}

// assignment is one "key = value" of a document, or one table header.
type assignment struct {
	key   []part
	table int // how many parts of the key are of its table, before it
	value node
}

// path is the assignment's whole key, as "sandbox.resources.memory".
func (a assignment) path() string { return join(a.key) }

func join(key []part) string {
	names := make([]string, len(key))
	for i, p := range key {
		names[i] = p.name
	}
	return strings.Join(names, ".")
}

// at is the position of the key as written, without its table.
func (a assignment) at() span {
	last := len(a.key) - 1
	return span{a.key[min(a.table, last)].at.start, a.key[last].at.end}
}

// node is a value with its place. Table headers and inline tables are tables
// without text: what they hold comes as assignments of its own.
type node struct {
	kind  unstable.Kind
	text  string
	at    span
	items []node
}

func (n node) isTable() bool {
	return n.kind == unstable.Table || n.kind == unstable.ArrayTable || n.kind == unstable.InlineTable
}

// parse finds the keys and values of the document, and where they are. What
// it takes can still not be TOML: see decodes.
func (d document) parse() ([]assignment, error) {
	if bytes.HasPrefix(d.text, []byte("\xff\xfe")) || bytes.HasPrefix(d.text, []byte("\xfe\xff")) {
		return nil, d.problem(span{}, "the file is encoded in UTF-16, not UTF-8")
	}
	var parser unstable.Parser
	parser.Reset(d.text)
	var found []assignment
	var table []part
	for parser.NextExpression() {
		expression := parser.Expression()
		if expression.Kind == unstable.KeyValue {
			found = appendKeyValue(found, table, expression)
			continue
		}
		table = parts(nil, expression.Key())
		found = append(found, assignment{key: table, value: node{kind: expression.Kind}})
	}
	var wrong *unstable.ParserError
	if errors.As(parser.Error(), &wrong) {
		at := parser.Range(wrong.Highlight)
		return nil, d.syntaxProblem(int(at.Offset), int(at.Offset+at.Length), wrong.Message)
	}
	return found, parser.Error()
}

// decodes lets the library's decoder judge what the parser does not look at,
// such as keys that are given twice. Its time grows with the square of the
// number of keys, so it must only see documents without unknown ones.
func (d document) decodes() error {
	var anything map[string]any
	err := toml.Unmarshal(d.text, &anything)
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, column := wrong.Position()
		start := d.starts[min(line, len(d.starts))-1] + column - 1
		return d.syntaxProblem(start, start+1, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return err
}

// appendKeyValue appends an assignment below table; an inline table's content
// follows it.
func appendKeyValue(found []assignment, table []part, keyValue *unstable.Node) []assignment {
	a := assignment{key: parts(table, keyValue.Key()), table: len(table), value: value(keyValue.Value())}
	found = append(found, a)
	if a.value.kind == unstable.InlineTable {
		children := keyValue.Value().Children()
		for children.Next() {
			found = appendKeyValue(found, a.key, children.Node())
		}
	}
	return found
}

// parts appends a key to the table that it stands in.
func parts(table []part, key unstable.Iterator) []part {
	all := slices.Clone(table)
	for key.Next() && len(all) < maxDepth {
		n := key.Node()
		all = append(all, part{name: string(n.Data), at: spanOf(n)})
	}
	return all
}

func value(n *unstable.Node) node {
	v := node{kind: n.Kind, text: string(n.Data), at: spanOf(n)}
	if n.Kind == unstable.Array {
		children := n.Children()
		for children.Next() {
			v.items = append(v.items, value(children.Node()))
		}
	}
	return v
}

func spanOf(n *unstable.Node) span {
	return span{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)}
}

// syntaxProblem gives the library's errors our form.
func (d document) syntaxProblem(start, end int, message string) error {
	if strings.HasSuffix(message, "at start of value") {
		message += "; strings must be quoted"
	}
	return d.problem(span{start, end}, "%s", message)
}

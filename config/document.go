package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is the text of one configuration file.
type document struct {
	path string
	from OriginKind // FromRepository or FromUser
	text []byte
}

// part is one component of a key.
type part struct {
	name string
	at   span
}

// assignment is one "key = value" of a document, or one table header.
type assignment struct {
	key   []part
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

// at is where the assignment's last key stands.
func (a assignment) at() span {
	return span{a.key[0].at.start, a.key[len(a.key)-1].at.end}
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

// parse reads the document. Whether it is TOML at all (keys given twice
// included) is for the library's decoder to say; the places of keys and values
// then come from its parser.
func (d document) parse() ([]assignment, error) {
	if bytes.HasPrefix(d.text, []byte("\xff\xfe")) || bytes.HasPrefix(d.text, []byte("\xfe\xff")) {
		return nil, d.problem(span{}, "the file is in UTF-16: save it as UTF-8")
	}
	var anything map[string]any
	if err := toml.Unmarshal(d.text, &anything); err != nil {
		return nil, d.syntaxProblem(err)
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
	return found, parser.Error()
}

// appendKeyValue appends an assignment below table; an inline table's content
// follows it.
func appendKeyValue(found []assignment, table []part, keyValue *unstable.Node) []assignment {
	a := assignment{key: parts(table, keyValue.Key()), value: value(keyValue.Value())}
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
	all := append([]part(nil), table...)
	for key.Next() {
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

// syntaxProblem gives the decoder's error our form.
func (d document) syntaxProblem(err error) error {
	var decode *toml.DecodeError
	if !errors.As(err, &decode) {
		return d.problem(span{}, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	line, column := decode.Position()
	start := 0
	for ; line > 1; line-- {
		start += bytes.IndexByte(d.text[start:], '\n') + 1
	}
	start += column - 1
	return d.problem(span{start, start + 1}, "%s", strings.TrimPrefix(decode.Error(), "toml: "))
}

package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// object is a JSON object whose members keep their order and their text: the
// file is the user's.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("no JSON object")

func parseObject(b []byte) (object, error) {
	if !json.Valid(b) || bytes.TrimLeft(b, " \t\r\n")[0] != '{' {
		return nil, errNoObject
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	o := object{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)} // valid JSON has no other names
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	return o, nil
}

// find returns the index of a member, the last one as for every parser, or -1.
func (o object) find(name string) int {
	for i, m := range slices.Backward(o) {
		if m.name == name {
			return i
		}
	}
	return -1
}

func (o object) get(name string) json.RawMessage {
	if i := o.find(name); i >= 0 {
		return o[i].value
	}
	return nil
}

func (o *object) set(name string, value json.RawMessage) {
	if i := o.find(name); i >= 0 {
		(*o)[i].value = value
		return
	}
	*o = append(*o, member{name, value})
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := marshal(m.name)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// marshal leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

package agent

import (
	"bytes"
	"encoding/json"
	"slices"
)

// setJSON sets a member of a JSON object: the last one of its name, or a new one at the
// end. It keeps the order and format of all others.
func setJSON(object []byte, name string, value []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	from, to, separator := 0, 0, ""
	for dec.More() {
		member, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var old json.RawMessage
		if err := dec.Decode(&old); err != nil {
			return nil, err
		}
		separator = ","
		if member == name {
			to = int(dec.InputOffset())
			from = to - len(old)
		}
	}
	if to == 0 {
		from = bytes.LastIndexByte(object, '}')
		to = from
		value = slices.Concat([]byte(separator+`"`+name+`":`), value)
	}
	return slices.Concat(object[:from], value, object[to:]), nil
}

// marshal does not escape <, > and &.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

package egress

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strconv"
)

// What a sandbox can ask its own proxy: which connections it has refused. The
// agent has read all of that already, in the refusals themselves.
const (
	// RefusalsEnv is the variable that holds the URL to ask, in a sandbox that
	// has a proxy.
	RefusalsEnv = "RALPH_REFUSALS"
	// RefusalsPath is where the proxy answers, on the port for routes. No route
	// begins with a dot.
	RefusalsPath = "/.refused"
	// RefusalsSince is the parameter for the mark of an earlier answer. Without
	// it there is nothing in the answer but a mark.
	RefusalsSince = "since"
	// MaxRefusals bounds the places in one answer.
	MaxRefusals = 64
	// MaxRefusalsSize is more than any answer has, in bytes.
	MaxRefusalsSize = 64 << 10
)

// maxMark bounds the length of a mark, in bytes.
const maxMark = 64

// Refusal is a place that was refused, and how often.
type Refusal struct {
	Host string `json:"host"`
	// Port is 0 when a name was asked for, and not a connection.
	Port  uint16 `json:"port,omitempty"`
	Times int    `json:"times"`
}

// Place is the host with its port, as people write it.
func (r Refusal) Place() string {
	if r.Port == 0 {
		return r.Host
	}
	return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
}

// Valid tells whether the host is a name or an address, in its one spelling.
// Whatever else an agent has asked for is its own text.
func (r Refusal) Valid() bool {
	if r.Times < 1 {
		return false
	}
	if name, err := Normalise(r.Host); err == nil {
		return name == r.Host
	}
	addr, err := netip.ParseAddr(r.Host)
	return err == nil && addr.Zone() == "" && addr.String() == r.Host
}

// Refusals is the proxy's answer.
type Refusals struct {
	// Mark is the moment of the answer, to ask again from.
	Mark string `json:"mark"`
	// Refused are the places that are refused still, in the order in which they
	// were tried first.
	Refused []Refusal `json:"refused"`
	// More counts refusals that are not in the list: of too many places, of
	// places that are none, and of those that were forgotten.
	More int `json:"more,omitempty"`
}

// ReadRefusals reads an answer that nobody vouches for. Only what is Valid is
// left of it.
func ReadRefusals(answer []byte) (Refusals, error) {
	wrong := errors.New("what the proxy says of refusals is not the JSON that was expected")
	if len(answer) > MaxRefusalsSize {
		return Refusals{}, wrong
	}
	var read Refusals
	if err := json.Unmarshal(answer, &read); err != nil || !validMark(read.Mark) || read.More < 0 {
		return Refusals{}, wrong
	}
	clean := Refusals{Mark: read.Mark, More: read.More}
	for _, r := range read.Refused {
		if !r.Valid() || len(clean.Refused) == MaxRefusals {
			clean.More++
			continue
		}
		clean.Refused = append(clean.Refused, r)
	}
	return clean, nil
}

// validMark tells whether a mark can stand in a URL as it is.
func validMark(mark string) bool {
	if mark == "" || len(mark) > maxMark {
		return false
	}
	for _, c := range []byte(mark) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

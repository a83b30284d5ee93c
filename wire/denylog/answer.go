// Package denylog is what a sandbox and the proxy beside it say to one another
// about connections that were refused. The names in it are chosen by an agent,
// so nothing of it is taken on trust.
package denylog

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// What a sandbox can ask its own proxy: which connections it has refused. The
// agent has read all of that already, in the refusals themselves.
const (
	// Env is the variable that holds the URL to ask, in a sandbox that has a
	// proxy.
	Env = "RALPH_REFUSALS"
	// Path is where the proxy answers, on the port for routes. No route begins
	// with a dot.
	Path = "/.refused"
	// Since is the parameter for the mark of an earlier answer. Without it there
	// is nothing in the answer but a mark.
	Since = "since"
	// MaxPlaces bounds one answer.
	MaxPlaces = 64
	// maxSize is more than any answer has, in bytes.
	maxSize = 64 << 10
)

const (
	maxMark  = 64      // length of a mark, in bytes
	maxTimes = 1 << 30 // beyond what can be counted, and far from where sums overflow
)

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

// Valid reports whether the host is a name or an address, in its one spelling.
// Whatever else an agent has asked for is its own text.
func (r Refusal) Valid() bool {
	if r.Times < 1 || r.Times > maxTimes {
		return false
	}
	if isName(r.Host) {
		return true
	}
	addr, err := netip.ParseAddr(r.Host)
	return err == nil && addr.Zone() == "" && addr.String() == r.Host
}

// isName is for names as DNS has them, in lower case. Names that end in a number
// are addresses to some programs.
func isName(host string) bool {
	if len(host) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if last = label; label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || !plain(label, "-_") {
			return false
		}
	}
	number := strings.Trim(last, "0123456789") == ""
	if digits, found := strings.CutPrefix(last, "0x"); found {
		number = strings.Trim(digits, "0123456789abcdef") == ""
	}
	return !number
}

// plain reports whether there is nothing in s but small letters, digits, and what
// else is allowed.
func plain(s, also string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return true
}

// Answer is the proxy's.
type Answer struct {
	// Mark is the moment of the answer, to ask again from.
	Mark string `json:"mark"`
	// Refused are the places that are refused still, in the order in which they
	// were tried first.
	Refused []Refusal `json:"refused"`
	// More counts refusals that are not in the list: of too many places, of
	// places that are none, and of those that were forgotten.
	More int `json:"more,omitempty"`
}

// Read reads an answer that nobody vouches for. Only what is Valid is
// left of it.
func Read(answer []byte) (Answer, error) {
	wrong := errors.New("what the proxy says of refusals is not the JSON that was expected")
	if len(answer) > maxSize {
		return Answer{}, wrong
	}
	var read Answer
	if err := json.Unmarshal(answer, &read); err != nil || !validMark(read.Mark) || read.More < 0 || read.More > maxTimes {
		return Answer{}, wrong
	}
	clean := Answer{Mark: read.Mark, More: read.More}
	for _, r := range read.Refused {
		if !r.Valid() || len(clean.Refused) == MaxPlaces {
			clean.More++
			continue
		}
		clean.Refused = append(clean.Refused, r)
	}
	return clean, nil
}

// validMark reports whether a mark can stand in a URL as it is.
func validMark(mark string) bool { return mark != "" && len(mark) <= maxMark && plain(mark, ".") }

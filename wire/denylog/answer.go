// Package denylog is the protocol by which a sandbox queries its proxy for blocked
// connections. An agent chooses the host names, so answers are not trusted.
package denylog

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// Env is the environment variable with the URL of the deny log.
	Env = "RALPH_REFUSALS"
	// Path is the path of the deny log, on the port for routes. No route begins
	// with a dot.
	Path = "/.refused"
	// Since is the parameter with the mark of an earlier answer. Without it, an
	// answer has only a mark.
	Since = "since"
	// MaxTargets bounds the number of destinations in an answer.
	MaxTargets = 64
	// maxSize bounds the size of an answer, in bytes.
	maxSize = 64 << 10
)

const (
	maxMark  = 64      // length of a mark, in bytes
	maxTimes = 1 << 30 // far from an overflow of sums
)

// Refusal is a blocked destination with a count.
type Refusal struct {
	Host string `json:"host"`
	// Port is 0 for a DNS query.
	Port  uint16 `json:"port,omitempty"`
	Times int    `json:"times"`
}

// Target returns host:port, or the host of a DNS query.
func (r Refusal) Target() string {
	if r.Port == 0 {
		return r.Host
	}
	return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
}

// Valid reports whether the host is a name or an address in canonical form.
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

// isName reports whether host is a lower-case DNS name. Some programs parse names
// that end in a number as addresses.
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

// plain reports whether s has only lower-case letters, digits and the other allowed
// characters.
func plain(s, also string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return true
}

// Answer is an answer of the proxy.
type Answer struct {
	// Mark is the time of the answer, for [Since].
	Mark string `json:"mark"`
	// Refused are the destinations that are still blocked, by first attempt.
	Refused []Refusal `json:"refused"`
	// More counts other blocked connections: beyond the limit, invalid or dropped.
	More int `json:"more,omitempty"`
}

// Read parses an untrusted answer and drops invalid destinations.
func Read(answer []byte) (Answer, error) {
	wrong := errors.New("deny log of the proxy is not valid JSON")
	if len(answer) > maxSize {
		return Answer{}, wrong
	}
	var read Answer
	if err := json.Unmarshal(answer, &read); err != nil || !validMark(read.Mark) || read.More < 0 || read.More > maxTimes {
		return Answer{}, wrong
	}
	clean := Answer{Mark: read.Mark, More: read.More}
	for _, r := range read.Refused {
		if !r.Valid() || len(clean.Refused) == MaxTargets {
			clean.More++
			continue
		}
		clean.Refused = append(clean.Refused, r)
	}
	return clean, nil
}

// validMark reports whether a mark needs no escaping in a URL.
func validMark(mark string) bool { return mark != "" && len(mark) <= maxMark && plain(mark, ".") }

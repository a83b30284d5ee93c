package microvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Request is what the programs' logs have of the requests to one host. They
// count them, for as long as the daemon runs, and beyond a sandbox's end.
type Request struct {
	Host    string // text that the agent chose
	Port    uint16 // 0 if it is not known
	Refused bool
	Count   int
	Last    time.Time // zero if it is not known
	Via     string
	Why     string
}

// logged is an entry as sbx prints it; docker sandbox, its predecessor, is taken
// to do the same (contract, section 6.3).
type logged struct {
	Host     string          `json:"host"`
	Sandbox  string          `json:"vm_name"`
	Via      string          `json:"proxy_type"`
	Rule     string          `json:"rule"`
	LastSeen json.RawMessage `json:"last_seen"`
	Count    json.RawMessage `json:"count_since"`
	Reason   string          `json:"reason"`
}

// ParseLog reads the programs' network logs, as far as they are about the
// sandbox of that name.
func ParseLog(output []byte, sandbox string) ([]Request, error) {
	var lists map[string]json.RawMessage
	if err := decode(output, &lists); err != nil {
		return nil, err
	}
	if lists["blocked_hosts"] == nil && lists["allowed_hosts"] == nil {
		return nil, errors.New("it has neither blocked_hosts nor allowed_hosts")
	}
	var all []Request
	for _, list := range []string{"blocked_hosts", "allowed_hosts"} {
		var entries []logged
		if content := lists[list]; content != nil {
			if err := json.Unmarshal(content, &entries); err != nil {
				return nil, fmt.Errorf("reading its %s: %w", list, err)
			}
		}
		for _, e := range entries {
			if e.Host != "" && (e.Sandbox == sandbox || e.Sandbox == "") {
				all = append(all, e.request(list == "blocked_hosts"))
			}
		}
	}
	return all, nil
}

func (e logged) request(refused bool) Request {
	r := Request{Host: e.Host, Refused: refused, Count: 1, Via: e.Via, Why: e.Reason}
	if r.Why == "" {
		r.Why = e.Rule
	}
	if host, port, err := net.SplitHostPort(e.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			r.Host, r.Port = host, uint16(n)
		}
	}
	var count int
	if json.Unmarshal(e.Count, &count) == nil && count > 0 {
		r.Count = count
	}
	var last time.Time
	if json.Unmarshal(e.LastSeen, &last) == nil { // its form is not documented
		r.Last = last
	}
	return r
}

package microvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// logged is an entry of the log of sbx (contract, section 6.3), and presumably of docker
// sandbox.
type logged struct {
	Host     string          `json:"host"`
	Sandbox  string          `json:"vm_name"`
	Via      string          `json:"proxy_type"`
	Rule     string          `json:"rule"`
	LastSeen json.RawMessage `json:"last_seen"`
	Count    json.RawMessage `json:"count_since"`
	Reason   string          `json:"reason"`
}

// parseLog returns the requests of a sandbox.
func parseLog(output []byte, sandbox string) ([]lifecycle.Request, error) {
	var lists map[string]json.RawMessage
	if err := decode(output, &lists); err != nil {
		return nil, err
	}
	if lists["blocked_hosts"] == nil && lists["allowed_hosts"] == nil {
		return nil, errors.New("neither blocked_hosts nor allowed_hosts in the JSON")
	}
	var all []lifecycle.Request
	for _, list := range []string{"blocked_hosts", "allowed_hosts"} {
		var entries []logged
		if content := lists[list]; content != nil {
			if err := json.Unmarshal(content, &entries); err != nil {
				return nil, fmt.Errorf("parsing %s: %w", list, err)
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

func (e logged) request(refused bool) lifecycle.Request {
	r := lifecycle.Request{Host: e.Host, Refused: refused, Count: 1, Via: e.Via, Why: e.Reason}
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
	if json.Unmarshal(e.LastSeen, &last) == nil { // its format is not documented
		r.Last = last
	}
	return r
}

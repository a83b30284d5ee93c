package proxy

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
)

// journal writes the log. What goes into it are hosts and reasons, never what
// was sent: no header, no path, no body.
type journal struct {
	mu sync.Mutex
	w  io.Writer
}

// maxLogged bounds what of a host is written: it is the agent's text.
const maxLogged = 253

func (j *journal) decision(via string, v egress.Verdict) {
	d := egress.Decision{
		Time: time.Now().UTC(), Via: via, Decision: egress.Refused,
		Host: v.Host, Port: v.Port, Why: v.Why, Hint: v.Hint,
	}
	if v.Allowed {
		d.Decision, d.Hint = egress.Allowed, ""
	}
	j.write(d)
}

// failure notes that a request by a route came to nothing.
func (j *journal) failure(e outbound, status int, why string) {
	j.write(egress.Decision{
		Time: time.Now().UTC(), Via: viaRoute, Decision: egress.Failed,
		Host: e.verdict.Host, Port: e.verdict.Port, Why: why, Route: e.route, Status: status,
	})
}

func (j *journal) write(d egress.Decision) {
	if len(d.Host) > maxLogged {
		d.Host = d.Host[:maxLogged]
	}
	line, err := json.Marshal(d)
	if err != nil {
		return // there is nothing in it that cannot be written
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.w.Write(append(line, '\n'))
}

package proxy

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// maxRefused bounds what is remembered of refusals. The oldest are forgotten.
const maxRefused = 1024

// refusedLog is the list of blocked hosts for the sandbox. It does not include
// invalid requests for allowed hosts.
type refusedLog struct {
	mu   sync.Mutex
	id   string // changes with a restart, which resets the counters
	last uint64 // number of the latest refusal
	runs []refusedRun
}

// refusedRun are refusals of one place with nothing in between, so that a
// program that tries on and on takes no more room than one that does once.
type refusedRun struct {
	via, host   string
	port        uint16
	late        bool // refused for where the name leads, whatever the policy says
	first, last uint64
}

func newRefusedLog() *refusedLog {
	return &refusedLog{id: strings.ToLower(rand.Text()[:12])}
}

func (l *refusedLog) add(via string, v egress.Verdict, late bool) {
	run := refusedRun{via: via, host: v.Host, port: v.Port, late: late}
	if len(run.host) > maxLogged {
		run.host = "" // not a name, whatever it is
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	if n := len(l.runs); n > 0 {
		before := &l.runs[n-1]
		run.first, run.last = before.first, before.last
		if *before == run {
			before.last = l.last
			return
		}
		if n == maxRefused {
			l.runs = slices.Delete(l.runs, 0, 1)
		}
	}
	run.host = strings.Clone(run.host) // it may be a part of a long request
	run.first, run.last = l.last, l.last
	l.runs = append(l.runs, run)
}

// since returns the denials after a mark. more counts the evicted ones. Without a mark, there are none; an
// unknown mark returns all.
func (l *refusedLog) since(mark string) (runs []refusedRun, now string, more uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = fmt.Sprintf("%s.%d", l.id, l.last)
	if mark == "" {
		return nil, now, 0
	}
	var after uint64
	if id, number, _ := strings.Cut(mark, "."); id == l.id {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			n = 0
		}
		after = min(n, l.last)
	}
	begin := after + 1 // of what is remembered
	if len(l.runs) > 0 && l.runs[0].first > begin {
		begin = l.runs[0].first
	}
	for _, run := range l.runs {
		if run.last >= begin {
			run.first = max(run.first, begin)
			runs = append(runs, run)
		}
	}
	return runs, now, begin - after - 1
}

// refusedSince is the answer for a mark. What has been allowed meanwhile is left
// out.
func (s *Server) refusedSince(mark string) denylog.Answer {
	runs, now, more := s.refused.since(mark)
	answer := denylog.Answer{Mark: now, Refused: []denylog.Refusal{}, More: int(more)}
	at := map[hostPort]int{}
	for _, run := range runs {
		place := hostPort{run.host, run.port}
		times := int(run.last - run.first + 1)
		if i, ok := at[place]; ok {
			answer.Refused[i].Times += times
			continue
		}
		refusal := denylog.Refusal{Host: run.host, Port: run.port, Times: times}
		switch {
		case !run.late && s.evaluate(run.via, run.host, run.port).Allowed:
		case !refusal.Valid() || len(answer.Refused) == denylog.MaxTargets:
			answer.More += times
		default:
			at[place] = len(answer.Refused)
			answer.Refused = append(answer.Refused, refusal)
		}
	}
	return answer
}

// serveJSON answers a query of the sandbox.
func serveJSON(w http.ResponseWriter, r *http.Request, answer any) {
	if r.Method != http.MethodGet {
		refuseText(w, http.StatusMethodNotAllowed, "docker ralph: there is nothing to be changed here")
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return // there is nothing in it that cannot be written
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/docker-ralph/docker-ralph/egress"
)

// refusal is what the agent reads. It says what to do to a person; the agent
// itself cannot do it.
func refusal(v egress.Verdict) string {
	target := egress.Printable(v.Host)
	if v.Port != 0 {
		target = net.JoinHostPort(target, strconv.Itoa(int(v.Port)))
	}
	text := fmt.Sprintf("docker ralph: blocked %s (%s).", target, v.Why)
	if v.Hint != "" {
		text += " Allow it from the host with: docker ralph network allow " + v.Hint
	}
	return text
}

func writeRefusal(w http.ResponseWriter, v egress.Verdict) {
	refuseText(w, http.StatusForbidden, refusal(v))
}

func refuseText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

func writeBusy(w http.ResponseWriter) {
	refuseText(w, http.StatusServiceUnavailable, fmt.Sprintf("docker ralph: %d connections are open, which is the limit", maxTunnels))
}

// writeCut answers a request that was cut off before it was sent.
func (s *Server) writeCut(w http.ResponseWriter, v egress.Verdict) {
	now := s.policy.Load().Decide(v.Host, v.Port)
	if now.Allowed {
		refuseText(w, http.StatusServiceUnavailable, "docker ralph: all connections were just closed; ask again")
		return
	}
	writeRefusal(w, now)
}

// explain turns what went wrong on the way to a host into a refusal, if it was
// one, and logs it. Anything else is the network's fault.
func (s *Server) explain(via string, v egress.Verdict, err error) (egress.Verdict, bool) {
	var address *egress.AddressError
	if !errors.As(err, &address) {
		return v, false
	}
	hint := ""
	if address.Overridable && !v.Literal {
		rule := egress.Rule{Host: v.Host, Port: v.Port}
		if v.Port == 80 || v.Port == 443 {
			rule.Port = 0
		}
		hint = fmt.Sprintf("%s=%s", rule, address.Addr)
	}
	v = s.refuse(via, v, address.Error(), hint)
	s.refused.add(via, v, true)
	return v, true
}

func (s *Server) writeExplained(w http.ResponseWriter, via string, v egress.Verdict, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if refused, ok := s.explain(via, v, err); ok {
		writeRefusal(w, refused)
		return
	}
	target := net.JoinHostPort(egress.Printable(v.Host), strconv.Itoa(int(v.Port)))
	refuseText(w, http.StatusBadGateway, fmt.Sprintf("docker ralph: %s is allowed, but cannot be reached: %s", target, networkError(err)))
}

// networkError says what happened without what a library adds.
func networkError(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no such host"
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

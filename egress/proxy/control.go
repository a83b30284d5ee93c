package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
)

// controlSocket has no file (the "@" makes it abstract): it is in the network
// namespace of the proxy's container, where the sandbox is not. Only who may run
// something in that container can reach it.
const controlSocket = "@ralph-egress"

// maxOrder bounds a message on the control socket, in bytes.
const maxOrder = 1 << 20

// Order is a request to the control socket of a running proxy.
type Order struct {
	// Do is "policy", "stats", "allow", "deny", "routes" or "reset".
	Do string `json:"do"`
	// Rules are those to allow or deny: all of them, or none if one is wrong. With
	// routes they are the endpoints of a command's own, in place of those before.
	Rules []string `json:"rules,omitempty"`
	// Origin is where the rules come from.
	Origin string `json:"origin,omitempty"`
	// Routes replace all that the proxy has. They hold keys.
	Routes []egress.Route `json:"routes,omitempty"`
}

// Answer is the response to an [Order].
type Answer struct {
	Error  string         `json:"error,omitempty"`
	Policy *egress.Policy `json:"policy,omitempty"`
	Stats  *egress.Stats  `json:"stats,omitempty"`
	// Routes are the prefixes of those that were taken over.
	Routes []string `json:"routes,omitempty"`
}

func (s *Server) serveControl(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(headerTimeout))
			var order Order
			if err := json.NewDecoder(io.LimitReader(conn, maxOrder)).Decode(&order); err != nil {
				return
			}
			_ = json.NewEncoder(conn).Encode(s.handle(order))
		}()
	}
}

func (s *Server) handle(o Order) Answer {
	switch o.Do {
	case "policy":
		return Answer{Policy: s.policy.Load()}
	case "stats":
		return Answer{Stats: &egress.Stats{Hosts: s.stats.list(), Open: s.open.count()}}
	case "allow":
		return s.amend(o, egress.Policy.Allow)
	case "deny":
		return s.amend(o, egress.Policy.Refuse)
	case "routes":
		return s.reroute(o)
	case "reset":
		return s.reset()
	}
	return Answer{Error: fmt.Sprintf("there is no order %q", o.Do)}
}

// reroute replaces the routes and endpoints of a command. Requests by routes that
// are on their way go on.
func (s *Server) reroute(o Order) Answer {
	if err := egress.CheckRoutes(o.Routes); err != nil {
		return Answer{Error: err.Error()}
	}
	table, err := newRoutes(o.Routes)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	endpoints, err := parseRules(o.Rules)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	s.amending.Lock()
	defer s.amending.Unlock()
	now := *s.policy.Load()
	next, err := now.WithEndpoints(endpoints)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	s.routes.Store(table)
	if !reflect.DeepEqual(now, next) {
		s.change(next)
	}
	answer := Answer{Routes: []string{}}
	for _, r := range o.Routes {
		answer.Routes = append(answer.Routes, r.Prefix)
	}
	return answer
}

func parseRules(texts []string) ([]egress.Rule, error) {
	var rules []egress.Rule
	for _, text := range texts {
		rule, err := egress.ParseRule(text)
		if err != nil {
			return nil, fmt.Errorf("invalid network rule %q: %w", text, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// reset removes all keys, the endpoints of the first command and all hosts that were
// allowed since the proxy started. Denied hosts stay denied, and hosts of exclusive
// routes stay blocked, so the next start of the sandbox reaches no more than this one.
func (s *Server) reset() Answer {
	s.amending.Lock()
	defer s.amending.Unlock()
	next, err := s.begun.WithEndpoints(nil)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	for _, refused := range s.policy.Load().Refused {
		if next, err = next.Refuse(refused); err != nil {
			return Answer{Error: err.Error()}
		}
	}
	s.routes.Store(&routeTable{exclusive: s.routes.Load().exclusive})
	s.change(next)
	s.open.closeAll()
	return Answer{Policy: &next}
}

// amend changes the policy by all rules of an order. Two orders at the same time
// must not undo one another.
func (s *Server) amend(o Order, step func(egress.Policy, egress.Entry) (egress.Policy, error)) Answer {
	if len(o.Rules) == 0 {
		return Answer{Error: "no rule was named"}
	}
	rules, err := parseRules(o.Rules)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	s.amending.Lock()
	defer s.amending.Unlock()
	next := *s.policy.Load()
	for _, rule := range rules {
		if next, err = step(next, egress.Entry{Rule: rule, Origin: o.Origin}); err != nil {
			return Answer{Error: err.Error()}
		}
	}
	s.change(next)
	return Answer{Policy: &next}
}

// Control sends an order to the proxy in this network namespace.
func Control(ctx context.Context, o Order) (Answer, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", controlSocket)
	if err != nil {
		return Answer{}, fmt.Errorf("reaching the proxy: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	return ask(conn, o)
}

func ask(conn net.Conn, o Order) (Answer, error) {
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		return Answer{}, fmt.Errorf("sending a command to the proxy: %w", err)
	}
	var answer Answer
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return Answer{}, fmt.Errorf("reading the proxy's answer: %w", err)
	}
	if answer.Error != "" {
		return Answer{}, errors.New(answer.Error)
	}
	return answer, nil
}

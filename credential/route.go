package credential

import (
	"context"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Routed has the routes and variables of an agent that uses its model through the proxy. It
// contains keys.
type Routed struct {
	// Routes are for the proxy, with the keys.
	Routes []egress.Route
	// Inside are the KEY=value pairs for the sandbox.
	Inside []string
	// Exposed are the names of those in Inside with keys that no proxy can add. Those that
	// the user named are not included.
	Exposed []string

	keys        []routedKey
	environment func(base string, keys []routedKey) []string
}

// routedKey is a key that a route adds.
type routedKey struct {
	provider provider
	variable string   // has the sentinel
	more     []string // further KEY=value pairs
	key      Key
}

// Environment returns the KEY=value pairs that make the agent use the routes, which are below
// the URL base. They contain no secrets.
func (r Routed) Environment(base string) []string {
	var env []string
	for _, l := range r.keys {
		env = append(env, l.variable+"="+Sentinel)
		env = append(env, l.more...)
	}
	if r.environment != nil {
		env = append(env, r.environment(base, r.keys)...)
	}
	return env
}

// Key is the origin of the key of a route.
type Key struct {
	Variable string // with the key, or for one
	Endpoint string // variable with the target; empty for the vendor's
	Source   KeySource
}

// KeySource is the kind of a key's origin.
type KeySource int

// The sources of keys.
const (
	NoKey        KeySource = iota // a custom endpoint without a key
	FromVariable                  // in the environment
	FromSignIn                    // in the agent's login on this machine
)

// KeyOf returns the origin of the key of a route.
func (r Routed) KeyOf(prefix string) (Key, bool) {
	for _, l := range r.keys {
		if "/"+l.provider.name == prefix {
			return l.key, true
		}
	}
	return Key{}, false
}

// Router finds the routes of an agent.
type Router struct {
	LookupEnv func(string) (string, bool)
	Home      string // the user's home directory; empty for none
	// Cloud is set if the model is used with credentials of a cloud. No keys are passed
	// but those that the user named.
	Cloud bool
	// NoProxy is set if no proxy can add keys: all are passed to the sandbox.
	NoProxy bool
	// Keychain is the program that reads the Keychain of macOS; empty for none.
	Keychain string
	// EndpointPaths are further paths of custom endpoints that need the key.
	EndpointPaths []string
	// Warn reports a login that cannot be used; may be nil.
	Warn func(message string)

	limit time.Duration // timeout of the Keychain; 0 for the default
}

// Route returns routes for the keys of an agent, and its other variables. named are the
// variables that the user passes: no route replaces them, except for endpoints.
func (r Router) Route(ctx context.Context, agent string, named []string) (Routed, error) {
	kind := agentProviders(agent)
	if r.NoProxy {
		kind = agentRoutes{}
	}
	routed := Routed{environment: kind.environment}
	out := map[string]bool{}   // variables that are not passed
	taken := map[string]bool{} // those that are not passed even if they are named
	passed := func(name string) bool { return r.value(name) != "" && slices.Contains(named, name) }
	for _, p := range kind.providers {
		if slices.ContainsFunc(kind.config, passed) {
			continue // the user configures the endpoints
		}
		if !r.Cloud && !slices.ContainsFunc(p.secrets(), passed) { // otherwise it has a key inside
			route, l, err := r.route(ctx, p)
			if err != nil {
				return Routed{}, err
			}
			if l.variable == "" {
				continue
			}
			routed.Routes, routed.keys = append(routed.Routes, route), append(routed.keys, l)
			out[p.endpoint], taken[p.endpoint] = true, true
		}
		for _, name := range keysFor(agent, p.name) {
			out[name] = true
		}
		if r.Cloud {
			delete(out, p.headers) // for guardrails and the like
		}
	}
	for _, pair := range Collect(append(Names(agent), named...), r.LookupEnv) {
		if name, _, _ := strings.Cut(pair, "="); !out[name] || passed(name) && !taken[name] {
			routed.pass(pair, passed(name))
		}
	}
	return routed, nil
}

// keysFor are the variables with keys of an agent for one service.
func keysFor(agent, service string) []string {
	for _, s := range Services(agent) {
		if s.Name == service {
			return s.Variables
		}
	}
	return nil
}

// pass adds a variable for the sandbox.
func (r *Routed) pass(pair string, named bool) {
	r.Inside = append(r.Inside, pair)
	if name, value, _ := strings.Cut(pair, "="); holdsKey(name) && value != "" && !named {
		r.Exposed = append(r.Exposed, name)
	}
}

// holdsKey reports whether a variable of an agent contains a key.
func holdsKey(name string) bool {
	return strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_TOKEN") || name == customHeaders
}

// route returns the route to a provider. Without a key, there is one only to a custom
// endpoint, which may need none.
func (r Router) route(ctx context.Context, p provider) (egress.Route, routedKey, error) {
	route := egress.Route{Prefix: "/" + p.name, Target: p.target, Requests: p.requests, Headers: map[string]egress.Secret{}}
	l := routedKey{provider: p}
	if own := r.value(p.endpoint); own != "" {
		if err := checkEndpoint(p.endpoint, own); err != nil {
			return egress.Route{}, routedKey{}, err
		}
		route.Target, route.Own, route.Paths = strings.TrimSuffix(own, "/"), true, r.EndpointPaths
	}
	use := func(k key, source KeySource, secret string) {
		l.variable, route.Headers[k.header] = k.variable, egress.Secret(k.prefix+strings.TrimSpace(secret))
		l.key = Key{Variable: k.variable, Source: source}
	}
	if i := slices.IndexFunc(p.keys, func(k key) bool { return r.value(k.variable) != "" }); i >= 0 {
		use(p.keys[i], FromVariable, r.value(p.keys[i].variable))
	}
	secret, open, err := splitHeaders(p.headers, r.value(p.headers))
	if err != nil {
		return egress.Route{}, routedKey{}, err
	}
	maps.Copy(route.Headers, secret)
	if open != "" {
		l.more = append(l.more, p.headers+"="+open)
	}
	switch {
	case l.variable != "":
	case len(secret) > 0 || route.Own: // a login is for the vendor only
		l.variable = p.keys[0].variable // agents need one to start
		l.key = Key{Variable: l.variable}
		if len(secret) > 0 {
			l.key = Key{Variable: p.headers, Source: FromVariable}
		}
	case p.signIn != nil:
		if k, secret := p.signIn(r, ctx); secret != "" {
			use(k, FromSignIn, secret)
		}
	}
	if l.variable == "" {
		return egress.Route{}, routedKey{}, nil
	}
	if route.Own {
		l.key.Endpoint = p.endpoint
	}
	if err := egress.CheckRoutes([]egress.Route{route}); err != nil {
		return egress.Route{}, routedKey{}, fmt.Errorf("keeping the key of %s out of the sandbox: %w", p.name, err)
	}
	return route, l, nil
}

func (r Router) value(name string) string {
	value, _ := r.LookupEnv(name)
	return value
}

// checkEndpoint does not quote the URL, which may contain a password.
func checkEndpoint(variable, endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf(`%s must be a URL such as "https://gateway.example/v1"`, variable)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return hint.Wrap(fmt.Errorf("%s must not have a user, a query or a fragment", variable), "put keys into the agent's variables")
	}
	return nil
}

// splitHeaders parses lines of "Name: value". The agent sends those of the API itself; others
// may be keys.
func splitHeaders(variable, text string) (secret map[string]egress.Secret, open string, err error) {
	secret = map[string]egress.Secret{}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case line == "":
		case !ok || value == "" || !isToken(name):
			return nil, "", fmt.Errorf(`%s has a line that is not "Name: value"`, variable)
		case strings.HasPrefix(strings.ToLower(name), "anthropic-"):
			lines = append(lines, line)
		default:
			secret[textproto.CanonicalMIMEHeaderKey(name)] = egress.Secret(value)
		}
	}
	return secret, strings.Join(lines, "\n"), nil
}

// isToken reports whether a string can be the name of a header.
func isToken(name string) bool {
	const characters = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return name != "" && strings.Trim(name, characters) == ""
}

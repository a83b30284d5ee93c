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
)

// Routed says what becomes of an agent's variables when a proxy of ours stands
// between the agent and its model. It holds keys.
type Routed struct {
	// Routes are for the proxy, and have the keys. None means that it keeps none.
	Routes []egress.Route
	// Inside are the KEY=value pairs that go into the sandbox as they are.
	Inside []string
	// Exposed are the names of those in Inside that hold keys, because the agent
	// cannot work with a proxy. Those that the user named are not among them.
	Exposed []string

	lead []leading
	tell func(base string, lead []leading) []string
}

// leading is how an agent is led to a route.
type leading struct {
	provider provider
	variable string   // gets the sentinel
	more     []string // further KEY=value pairs
	key      Key
}

// Environment returns the KEY=value pairs that lead the agent to the routes,
// which the proxy has below the URL base. There is no secret in them.
func (r Routed) Environment(base string) []string {
	var env []string
	for _, l := range r.lead {
		env = append(env, l.variable+"="+Sentinel)
		env = append(env, l.more...)
	}
	if r.tell != nil {
		env = append(env, r.tell(base, r.lead)...)
	}
	return env
}

// Key says where the key of a route is from.
type Key struct {
	Variable string // that holds it, or would
	Endpoint string // variable that names the target; "" if that is the vendor's
	// Source is how the key was found.
	Source KeySource
}

// KeySource is how a key was found.
type KeySource int

// The sources of keys.
const (
	NoKey        KeySource = iota // an endpoint of the user's own is asked without one
	FromVariable                  // in the environment
	FromSignIn                    // in the agent's sign-in on this machine
)

// KeyOf returns where the key of the route with a prefix is from.
func (r Routed) KeyOf(prefix string) (Key, bool) {
	for _, l := range r.lead {
		if "/"+l.provider.name == prefix {
			return l.key, true
		}
	}
	return Key{}, false
}

// Router finds the routes of an agent.
type Router struct {
	LookupEnv func(string) (string, bool)
	Home      string // the user's home folder; "" if there is none
	// Cloud says that the model is reached by credentials of a cloud: no key is
	// needed, and none but those that the user named goes in.
	Cloud bool
	// NoProxy says that no proxy can add keys: all of them go in.
	NoProxy bool
	// Keychain is the program that reads the Keychain of macOS; "" if there is
	// none.
	Keychain string
	// EndpointPaths are requested with the key from endpoints of the user's own,
	// besides the paths that agents need.
	EndpointPaths []string
	// Warn tells the user of a sign-in that cannot be used; nil for nobody.
	Warn func(message string)

	limit time.Duration // of a question to the Keychain; 0 for the usual one
}

// Route takes what Collect would return for the agent apart. named are the
// variables that the user asked to pass on: they go in with their values, and
// no route takes their place. An endpoint that is named is the same as one that is
// not.
func (r Router) Route(ctx context.Context, agent string, named []string) (Routed, error) {
	kind := familyOf(agent)
	if r.NoProxy {
		kind = family{}
	}
	routed := Routed{tell: kind.tell}
	out := map[string]bool{}   // variables that stay out
	taken := map[string]bool{} // of them, those that lead to a route, also when they are named
	passed := func(name string) bool { return r.value(name) != "" && slices.Contains(named, name) }
	for _, p := range kind.providers {
		if slices.ContainsFunc(kind.config, passed) {
			continue // the user leads the agent elsewhere, with all keys
		}
		if !r.Cloud && !slices.ContainsFunc(p.secrets(), passed) { // or else it has a key inside
			route, l, err := r.route(ctx, p)
			if err != nil {
				return Routed{}, err
			}
			if l.variable == "" {
				continue
			}
			routed.Routes, routed.lead = append(routed.Routes, route), append(routed.lead, l)
			out[p.endpoint], taken[p.endpoint] = true, true
		}
		for _, name := range keysFor(agent, p.name) {
			out[name] = true
		}
		if r.Cloud {
			delete(out, p.headers) // they choose guardrails and the like
		}
	}
	for _, pair := range Collect(append(Names(agent), named...), r.LookupEnv) {
		if name, _, _ := strings.Cut(pair, "="); !out[name] || passed(name) && !taken[name] {
			routed.takeIn(pair, passed(name))
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

// takeIn has a variable go in, and notes if that exposes a key.
func (r *Routed) takeIn(pair string, named bool) {
	r.Inside = append(r.Inside, pair)
	if name, value, _ := strings.Cut(pair, "="); holdsKey(name) && value != "" && !named {
		r.Exposed = append(r.Exposed, name)
	}
}

// holdsKey tells variables with keys from others of the same agent.
func holdsKey(name string) bool {
	return strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_TOKEN") || name == customHeaders
}

// route makes the route to one provider. Without a key there is one only to an
// endpoint of the user's own, which may need none.
func (r Router) route(ctx context.Context, p provider) (egress.Route, leading, error) {
	route := egress.Route{Prefix: "/" + p.name, Target: p.target, Paths: p.paths, Headers: map[string]egress.Secret{}}
	l := leading{provider: p}
	if own := r.value(p.endpoint); own != "" {
		if err := checkEndpoint(p.endpoint, own); err != nil {
			return egress.Route{}, leading{}, err
		}
		route.Target, route.Own, route.Paths = strings.TrimSuffix(own, "/"), true, append(slices.Clone(p.paths), r.EndpointPaths...)
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
		return egress.Route{}, leading{}, err
	}
	maps.Copy(route.Headers, secret)
	if open != "" {
		l.more = append(l.more, p.headers+"="+open)
	}
	switch {
	case l.variable != "":
	case len(secret) > 0 || route.Own: // which gets only the keys that the user says
		l.variable = p.keys[0].variable // agents do not start without one
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
		return egress.Route{}, leading{}, nil
	}
	if route.Own {
		l.key.Endpoint = p.endpoint
	}
	if err := egress.CheckRoutes([]egress.Route{route}); err != nil {
		return egress.Route{}, leading{}, fmt.Errorf("keeping the key of %s out of the sandbox: %w", p.name, err)
	}
	return route, l, nil
}

func (r Router) value(name string) string {
	value, _ := r.LookupEnv(name)
	return value
}

// checkEndpoint never shows the URL, which may hold a password.
func checkEndpoint(variable, endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf(`%s is not a URL such as "https://gateway.example/v1"`, variable)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s has a user, a query or a fragment, which cannot be used with a network policy: put keys into the agent's variables", variable)
	}
	return nil
}

// splitHeaders reads lines of "Name: value". Those of the API itself are the
// agent's to send; any other may be a key.
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

// isToken reports whether a text can be the name of a header.
func isToken(name string) bool {
	const characters = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return name != "" && strings.Trim(name, characters) == ""
}

package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Secret is text that must not be shown. It prints as a placeholder, and only
// JSON, which is how it is handed over, has the text.
type Secret string

// String hides the text.
func (Secret) String() string { return "[secret]" }

// GoString hides the text.
func (Secret) GoString() string { return "[secret]" }

// Start is the message to the proxy on its standard input, one line of JSON. It
// contains keys: it must not be logged, written to a file or put into argv.
type Start struct {
	// Address is where the sandbox reaches the proxy.
	Address netip.Addr `json:"address"`
	// Sockets is the directory in which the proxy listens, if the sandbox forwards
	// Address to there. Otherwise it listens on Address, and nowhere else.
	Sockets string `json:"sockets,omitempty"`
	Policy  Policy `json:"policy"`
	// Networks are those of the engine. No name leads there without a rule.
	Networks []netip.Prefix `json:"networks,omitempty"`
	Routes   []Route        `json:"routes,omitempty"`
	Upstream Upstream       `json:"upstream"`
	// CA holds certificates in PEM that the proxy trusts besides its own, for
	// the connections it encrypts itself: those of routes and to an upstream.
	CA string `json:"ca,omitempty"`
}

// Upstream is the proxy through which the host itself reaches the internet,
// with the meaning of HTTP_PROXY, HTTPS_PROXY and NO_PROXY. "" is none.
type Upstream struct {
	HTTP  Secret `json:"http,omitempty"`  // a URL, maybe with a password
	HTTPS Secret `json:"https,omitempty"` // likewise
	No    string `json:"no,omitempty"`
}

// Route lets an agent use a key without having it. A request to
//
//	http://PROXY:3129/PREFIX/v1/messages
//
// goes on to Target + "/v1/messages" with Headers in it. The policy must allow
// the target's host.
type Route struct {
	// Prefix is the first part of the path, such as "/anthropic".
	Prefix string `json:"prefix"`
	// Target is an https URL with the path below which all requests stay.
	Target string `json:"target"`
	// Own marks a target that the user has set. It needs no rule, and may be plain
	// HTTP, an address, and in a private range.
	Own bool `json:"own,omitempty"`
	// Headers replace those that the agent sent. Headers and query parameters
	// that are known to hold keys never come from the agent.
	Headers map[string]Secret `json:"headers"`
	// Requests narrow the requests down to exact ones, such as "POST /v1/messages". A path can end
	// with "/*", for one more name. Without them and Paths, all are sent.
	Requests []string `json:"requests,omitempty"`
	// Paths add requests by any method: what follows the prefix must be one of them or below it.
	Paths []string `json:"paths,omitempty"`
	// GitReadOnly lets git fetch and clone, and nothing else.
	GitReadOnly bool `json:"git_read_only,omitempty"`
	// GitPush lets git fetch, clone and push, and nothing else.
	GitPush bool `json:"git_push,omitempty"`
	// Exclusive blocks all other connections to the target's host, so that an agent
	// cannot use another key there.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Check validates the message. Its error contains no secrets.
func (s Start) Check() error {
	if !s.Address.IsValid() || s.Address.IsUnspecified() || s.Address.Zone() != "" {
		return fmt.Errorf("invalid address of the proxy: %q", s.Address)
	}
	if _, err := ParseMode(string(s.Policy.Mode)); err != nil {
		return fmt.Errorf("invalid network policy %q: %w", s.Policy.Mode, err)
	}
	if err := CheckRoutes(s.Routes); err != nil {
		return err
	}
	for _, up := range []Secret{s.Upstream.HTTP, s.Upstream.HTTPS} {
		if err := checkUpstream(up); err != nil {
			return err
		}
	}
	return nil
}

// CheckRoutes tells what is wrong with routes, without their secrets.
func CheckRoutes(routes []Route) error {
	seen := map[string]bool{}
	for _, r := range routes {
		if err := r.check(); err != nil {
			return fmt.Errorf("route %q: %w", r.Prefix, err)
		}
		if seen[r.Prefix] {
			return fmt.Errorf("duplicate route %q", r.Prefix)
		}
		seen[r.Prefix] = true
	}
	return nil
}

// ReadRoutes reads routes from a line of JSON.
func ReadRoutes(line []byte) ([]Route, error) {
	var routes []Route
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&routes); err != nil {
		return nil, errors.New("invalid JSON of the routes") // as below
	}
	return routes, CheckRoutes(routes)
}

func (r Route) check() error {
	name, ok := strings.CutPrefix(r.Prefix, "/")
	if !ok || name == "" || strings.ContainsAny(name, "/%?#\\ ") || name[0] == '.' {
		return errors.New(`the prefix must be "/" and one name`)
	}
	target, err := url.Parse(r.Target)
	if err != nil {
		return errors.New("the target is not a URL")
	}
	schemeFits := target.Scheme == "https" || r.Own && target.Scheme == "http"
	if !schemeFits || target.User != nil || target.RawQuery != "" || target.Fragment != "" {
		return errors.New("the target must be an https URL without user, query and fragment")
	}
	if _, err := Normalise(target.Hostname()); err != nil && (!r.Own || !errors.Is(err, ErrAddress)) {
		return err
	}
	for _, path := range r.Paths {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("the path %q does not begin with a slash", path)
		}
	}
	for _, request := range r.Requests {
		if method, path, _ := strings.Cut(request, " "); method == "" || !strings.HasPrefix(path, "/") {
			return fmt.Errorf("the request %q is not a method and a path", request)
		}
	}
	for name, value := range r.Headers {
		if name == "" || value == "" || strings.ContainsAny(name+string(value), "\r\n\x00") {
			return fmt.Errorf("the header %q cannot be sent", name)
		}
	}
	return nil
}

// checkUpstream never shows the URL, which may hold a password.
func checkUpstream(up Secret) error {
	if up == "" {
		return nil
	}
	u, err := url.Parse(string(up))
	if err != nil || u.Hostname() == "" {
		return errors.New(`the host's proxy is not a URL such as "http://proxy.example:3128"`)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the host's proxy is of the kind %q: only http and https are supported", u.Scheme)
	}
	return nil
}

// ReadStart reads the message from its line.
func ReadStart(line []byte) (Start, error) {
	var s Start
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		// Errors of encoding/json can quote what they stumbled over.
		return Start{}, errors.New("invalid JSON of the start message")
	}
	return s, s.Check()
}

// Decision is a line of the proxy's log, which is its standard output.
type Decision struct {
	Time time.Time `json:"t"`
	// Via is the way in: "connect", "http", "sni", "dns" or "route".
	Via string `json:"via"`
	// Decision is "allowed", "refused" or "failed".
	Decision string `json:"decision"`
	// Host is text that the agent chose: show it by Printable.
	Host string `json:"host"`
	// Port is 0 when a name was asked for.
	Port uint16 `json:"port,omitempty"`
	// Why is the origin of the rule, or the reason.
	Why string `json:"why"`
	// Hint is the rule that would allow it, for "docker ralph network allow".
	Hint string `json:"hint,omitempty"`
	// Route is the prefix of the route whose request has failed.
	Route string `json:"route,omitempty"`
	// Status is the status of its response, or 0 if there was none.
	Status int `json:"status,omitempty"`
}

// Words of Decision.Decision.
const (
	Allowed = "allowed"
	Refused = "refused"
	Failed  = "failed" // by a route: the key was refused, or the target not reached
)

// Ready is the line that the proxy writes once it listens.
type Ready struct {
	Ready   bool       `json:"ready"`
	Address netip.Addr `json:"address"`
}

// HostStats is what went through the proxy for a host since it started.
type HostStats struct {
	Host     string `json:"host"`
	Port     uint16 `json:"port,omitempty"`
	Allowed  int64  `json:"allowed"`  // decisions
	Refused  int64  `json:"refused"`  // decisions
	Sent     int64  `json:"sent"`     // bytes to the host
	Received int64  `json:"received"` // bytes from it
}

// Stats is the answer to "ralph-egress ctl stats".
type Stats struct {
	Hosts []HostStats `json:"hosts"`
	// Open is the number of connections that are open to hosts now.
	Open int `json:"open"`
}

// Package engines finds the real Docker Engines that tests run against.
package engines

import (
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
)

// Engine is a Docker Engine for tests.
type Engine struct {
	Name string // its kind, or "debian3" on another machine
	Host string // its address, as in DOCKER_HOST
	// Gateway is the address under which its containers reach this machine.
	Gateway string
	// TLS is the address of a remote engine, for clients with the certificates of RALPH_TEST_CERTS.
	TLS string
}

// Kind is "debian" or "moby", also on another machine.
func (e Engine) Kind() string { return strings.TrimRight(e.Name, "0123456789") }

// Client connects to the engine.
func (e Engine) Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(e.Host))
	assert.NilError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Dir is where files of the engine are on this machine.
func (e Engine) Dir() string {
	return strings.TrimSuffix(strings.TrimPrefix(e.Host, "unix://"), ".sock")
}

// Alone locks a resource of the engine, such as an address, until the test ends. Tests in
// other processes wait too.
func (e Engine) Alone(t testing.TB, thing string) {
	t.Helper()
	lock := flock.New(filepath.Join(os.TempDir(), "ralph-test-"+e.Name+"-"+thing+".lock"))
	assert.NilError(t, lock.Lock())
	t.Cleanup(func() { assert.Check(t, lock.Close()) })
}

// Each runs a test against every engine of [Need].
func Each(t *testing.T, test func(t *testing.T, engine Engine)) {
	t.Helper()
	for _, e := range Need(t) {
		t.Run(e.Name, func(t *testing.T) { test(t, e) })
	}
}

// The variables that name engines ("name=address,…").
const (
	local  = "RALPH_TEST_ENGINES"
	remote = "RALPH_TEST_REMOTE_ENGINES"
)

// Need returns the engines of RALPH_TEST_ENGINES. Without one, the test is skipped; in CI, it fails.
func Need(t *testing.T) []Engine {
	t.Helper()
	return need(t, local)
}

// NeedRemote is [Need] for engines of other machines, those of RALPH_TEST_REMOTE_ENGINES. They are of the same
// kinds and in the same order. Tests set them up by their sockets, and reach them as users do.
func NeedRemote(t *testing.T) []Engine {
	t.Helper()
	return need(t, remote)
}

func need(t *testing.T, variable string) []Engine {
	t.Helper()
	all := list(variable)
	if len(all) == 0 {
		how := variable + " names no engine; \"make test\" sets one up"
		if os.Getenv("CI") != "" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	return all
}

// List returns the engines of RALPH_TEST_ENGINES.
func List() []Engine { return list(local) }

// ListRemote returns the engines of RALPH_TEST_REMOTE_ENGINES.
func ListRemote() []Engine { return list(remote) }

func list(variable string) []Engine {
	gateways, tls := maps.Collect(entries("RALPH_TEST_GATEWAYS")), maps.Collect(entries("RALPH_TEST_TLS"))
	var all []Engine
	for name, host := range entries(variable) {
		all = append(all, Engine{Name: name, Host: host, Gateway: gateways[name], TLS: tls[name]})
	}
	return all
}

// entries returns the names and addresses in a variable.
func entries(variable string) iter.Seq2[string, string] {
	return func(yield func(name, address string) bool) {
		for entry := range strings.SplitSeq(os.Getenv(variable), ",") {
			if name, address, ok := strings.Cut(entry, "="); ok && !yield(name, address) {
				return
			}
		}
	}
}

// BaseImage is the image without an agent that every test engine has.
func BaseImage() string {
	if name := os.Getenv("RALPH_TEST_BASE"); name != "" {
		return name
	}
	return "ralph-test-base:bookworm"
}

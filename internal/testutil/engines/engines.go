// Package engines finds the real Docker Engines that tests run against.
package engines

import (
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
	Name string // such as "debian" or "moby"
	Host string // its address, as in DOCKER_HOST
	// Gateway is the address under which its containers reach this machine.
	Gateway string
}

// Client connects to the engine.
func (e Engine) Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(e.Host))
	assert.NilError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
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

// Need returns the engines of RALPH_TEST_ENGINES ("name=address,…"). Without one, the test is
// skipped; in CI, it fails.
func Need(t *testing.T) []Engine {
	t.Helper()
	all := List()
	if len(all) == 0 {
		const how = "RALPH_TEST_ENGINES names no engine; \"make test\" sets one up"
		if os.Getenv("CI") != "" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	return all
}

// List returns the engines of RALPH_TEST_ENGINES.
func List() []Engine {
	gateways := map[string]string{}
	for entry := range strings.SplitSeq(os.Getenv("RALPH_TEST_GATEWAYS"), ",") {
		name, address, _ := strings.Cut(entry, "=")
		gateways[name] = address
	}
	var all []Engine
	for entry := range strings.SplitSeq(os.Getenv("RALPH_TEST_ENGINES"), ",") {
		if name, host, ok := strings.Cut(entry, "="); ok {
			all = append(all, Engine{Name: name, Host: host, Gateway: gateways[name]})
		}
	}
	return all
}

// BaseImage is the image without an agent that every test engine has.
func BaseImage() string {
	if name := os.Getenv("RALPH_TEST_BASE"); name != "" {
		return name
	}
	return "ralph-test-base:bookworm"
}

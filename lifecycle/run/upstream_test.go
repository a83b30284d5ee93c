package run

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// noEngine is an engine that nothing is asked of.
type noEngine struct{ host.API }

func (noEngine) DaemonHost() string { return "" }

// Containers cannot reach a proxy at a loopback address of this machine.
func TestProxyOfThisMachineIsIgnored(t *testing.T) {
	for proxy, want := range map[string]egress.Secret{
		"http://proxy.example:3128":    "http://proxy.example:3128",
		"http://10.0.0.1:3128":         "http://10.0.0.1:3128",
		"http://localhost:3128":        "",
		"http://ip6-localhost:3128":    "",
		"http://proxy.localhost:3128":  "",
		"http://127.1.2.3:3128":        "",
		"http://[::1]:3128":            "",
		"http://localhost.localdomain": "",
	} {
		h := host.Host{
			ProxyArgs: func(string) map[string]*string { return nil },
			LookupEnv: func(name string) (string, bool) {
				if name == "https_proxy" {
					return proxy, true
				}
				return "", false
			},
		}
		assert.Check(t, upstream(h, Choice{Backend: host.Backend{API: noEngine{}}}) == egress.Upstream{HTTPS: want}, proxy)
	}
}

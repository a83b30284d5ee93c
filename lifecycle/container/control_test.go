package container_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// askModel asks for a URL and returns the first line of the answer.
const askModel = `
	use Socket; my ($host, $port, $path) = $ARGV[0] =~ m{^http://([^:/]+):(\d+)(.*)$};
	socket(my $s, PF_INET, SOCK_STREAM, 0); connect($s, pack_sockaddr_in($port, inet_aton($host))) or print("no listener\n"), exit;
	send($s, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0); print scalar <$s>`

// Only the proxy has the keys. A restarted proxy has none until they are sent again, so
// that the model cannot be reached.
func TestKeysAreOnlyInTheProxy(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, api := newSuite(t, e), e.Client(t)
		d := s.Driver.(*driver.Driver)
		sb, spec := isolated(t, s, egress.Deny)
		proxy := sb.Name + ".egress"
		serve(t, api, proxy, "model.example")
		secret := "sk-" + nonce()
		routes := []egress.Route{{Prefix: "/model", Target: "http://model.example", Own: true, Headers: map[string]egress.Secret{"X-Api-Key": egress.Secret(secret)}}}
		url := "http://" + sb.Proxy + ":3129"
		ask := func(sb lifecycle.Sandbox) string {
			return strings.TrimSpace(sh(t, d, sb, spec, "perl -e '"+askModel+"' "+url+"/model/v1"))
		}
		assert.Equal(t, ask(sb), "HTTP/1.1 503 Service Unavailable")
		base, err := d.SendRoutes(t.Context(), sb, routes, nil)
		assert.NilError(t, err)
		assert.Equal(t, base, url)
		assert.Equal(t, ask(sb), "HTTP/1.1 200 OK")

		wrong := []egress.Route{{Prefix: "/model", Target: "ftp://model.example", Headers: routes[0].Headers}}
		_, err = d.SendRoutes(t.Context(), sb, wrong, nil)
		assert.ErrorContains(t, err, "passing keys to the proxy of "+sb.Name)
		assert.Check(t, !strings.Contains(err.Error(), secret))
		assert.Equal(t, ask(sb), "HTTP/1.1 200 OK", "those that are good stay")

		for _, id := range []string{sb.ID, proxy} {
			res, err := api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
			assert.NilError(t, err)
			shown, err := json.Marshal(res.Container)
			assert.NilError(t, err)
			assert.Check(t, !strings.Contains(string(shown), secret), id)
		}

		made := containerID(t, api, proxy)
		_, err = d.SendRoutes(t.Context(), sb, routes, []string{"later.example"})
		assert.NilError(t, err)
		assert.NilError(t, d.Stop(t.Context(), sb))
		policy, err := d.Control(t.Context(), sb, "policy")
		assert.NilError(t, err)
		assert.Check(t, !strings.Contains(string(policy), "later.example"), "a rule of the run before is left: %s", policy)
		assert.NilError(t, d.Start(t.Context(), sb))
		assert.Equal(t, ask(sb), "HTTP/1.1 503 Service Unavailable", "a stop leaves a key behind")
		assert.Equal(t, containerID(t, api, proxy), made, "the proxy was not kept")
		_, err = d.SendRoutes(t.Context(), sb, routes, nil)
		assert.NilError(t, err)
		assert.Equal(t, ask(sb), "HTTP/1.1 200 OK")

		_, err = api.ContainerRestart(t.Context(), proxy, client.ContainerRestartOptions{Timeout: new(int)})
		assert.NilError(t, err)
		assert.Equal(t, ask(sb), "", "without a proxy, connections are closed")
		_, err = d.SendRoutes(t.Context(), sb, routes, nil)
		assert.ErrorContains(t, err, "reaching the proxy")
		again := repaired(t, d, spec)
		assert.Equal(t, ask(again), "HTTP/1.1 503 Service Unavailable")
		_, err = d.SendRoutes(t.Context(), again, routes, nil)
		assert.NilError(t, err)
		assert.Equal(t, ask(again), "HTTP/1.1 502 Bad Gateway", "the new proxy is not on the test's network")
	})
}

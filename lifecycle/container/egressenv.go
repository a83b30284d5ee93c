package container

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// gitHosts are hosts whose ssh URLs are rewritten to https. Over ssh, the proxy could
// not see the repository.
func gitHosts() []string {
	return []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "git.sr.ht", "ssh.dev.azure.com"}
}

// withProxyEnv adds the variables that make programs use the proxy, and ralph its deny
// log. They have an IP address, because there may be no resolver.
func withProxyEnv(env []string, proxy string) []string {
	url := fmt.Sprintf("http://%s:%d", proxy, wire.PortProxy)
	direct := strings.Join(append(egress.LocalNames(), ownAddresses(proxy)...), ",")
	vars := [][2]string{
		{"HTTP_PROXY", url},
		{"HTTPS_PROXY", url},
		{"http_proxy", url},
		{"https_proxy", url},
		{"NO_PROXY", direct},
		{"no_proxy", direct},
		{"NODE_USE_ENV_PROXY", "1"},
		{denylog.Env, fmt.Sprintf("http://%s:%d%s", proxy, wire.PortRoutes, denylog.Path)},
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(vars, func(set [2]string) bool { return set[0] == name }) || strings.EqualFold(name, "ALL_PROXY")
	})
	for _, v := range vars {
		env = append(env, v[0]+"="+v[1])
	}
	var settings [][2]string
	for _, host := range gitHosts() {
		if host == "ssh.dev.azure.com" {
			settings = append(settings, [2]string{"url.https://dev.azure.com/.insteadOf", "git@ssh.dev.azure.com:v3/"})
			continue
		}
		key := "url.https://" + host + "/.insteadOf"
		settings = append(settings, [2]string{key, "git@" + host + ":"}, [2]string{key, "ssh://git@" + host + "/"})
	}
	return WithGitConfig(env, settings)
}

// ownAddresses are those of the proxy and of the sandbox in its network, if it has one.
func ownAddresses(proxy string) []string {
	addresses := []string{proxy}
	if addr, err := netip.ParseAddr(proxy); err == nil && proxy != wire.ProxyAddress {
		n, _ := networkOf("", addr)
		addresses = append(addresses, n.agent.String())
	}
	return addresses
}

// WithGitConfig returns a copy of an environment with additional settings of git, as
// pairs of names and values.
func WithGitConfig(env []string, settings [][2]string) []string {
	const name = "GIT_CONFIG_COUNT="
	count := 0
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		value, ok := strings.CutPrefix(v, name)
		if n, err := strconv.Atoi(value); ok && err == nil && n > 0 {
			count = n
		}
		return ok
	})
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count+i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count+i, s[1]))
	}
	return append(env, name+strconv.Itoa(count+len(settings)))
}

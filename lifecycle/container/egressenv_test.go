package container

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestProxyEnv(t *testing.T) {
	given := []string{
		"A=b", "HTTPS_PROXY=http://elsewhere", "all_proxy=socks5://elsewhere", "RALPH_REFUSALS=http://elsewhere",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=u",
	}
	before := slices.Clone(given)
	env := withProxyEnv(given, "10.0.0.2")
	assert.DeepEqual(t, given, before)
	values := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		_, twice := values[name]
		assert.Check(t, !twice, name)
		values[name] = value
	}
	for name, want := range map[string]string{
		"A": "b", "HTTP_PROXY": "http://10.0.0.2:3128", "https_proxy": "http://10.0.0.2:3128", "HTTPS_PROXY": "http://10.0.0.2:3128",
		"NO_PROXY":           "localhost,.localhost,127.0.0.1,127.0.0.0/8,127.0.1.1,0.0.0.0,::1,[::1],::,sandbox,localhost.localdomain,ip6-localhost,ip6-loopback,10.0.0.2,10.0.0.3",
		"NODE_USE_ENV_PROXY": "1",
		"RALPH_REFUSALS":     "http://10.0.0.2:3129/.refused",
		"GIT_CONFIG_COUNT":   "12", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "u",
		"GIT_CONFIG_KEY_1": "url.https://github.com/.insteadOf", "GIT_CONFIG_VALUE_1": "git@github.com:",
		"GIT_CONFIG_VALUE_2": "ssh://git@github.com/",
	} {
		assert.Check(t, is.Equal(values[name], want), name)
	}
	assert.Check(t, is.Equal(values["no_proxy"], values["NO_PROXY"]))
	_, has := values["all_proxy"]
	assert.Check(t, !has)
}

package engine

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestLocal(t *testing.T) {
	for _, tc := range []struct {
		host  string
		local bool
	}{
		{"", true},
		{"unix:///var/run/docker.sock", true},
		{"npipe:////./pipe/docker_engine", true},
		{"fd://", true},
		{"tcp://localhost:2375", true},
		{"tcp://127.0.0.1:2375", true},
		{"tcp://[::1]:2376", true},
		{"https://127.8.8.8", true},
		{"tcp://192.0.2.1:2376", false},
		{"tcp://localhost.example.com:2376", false},
		{"https://docker.example.com", false},
		{"ssh://big", false},
		{"ssh://user@localhost", false},
		{"other://127.0.0.1", false},
	} {
		t.Run(tc.host, func(t *testing.T) { assert.Equal(t, Local(tc.host), tc.local) })
	}
}

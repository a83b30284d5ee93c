package projectimage

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

const head = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"

func TestLayerUser(t *testing.T) {
	for _, tc := range []struct{ name, steps, noted string }{
		{"none", "", ""},
		{"back to agent", "USER root\nUSER agent\n", ""},
		{"with a group", "USER root\nuser agent:staff\n", ""},
		{"by number", "USER root\r\nUSER 1000\r\n", ""},
		{"root", "USER agent\n  USER root:root\nRUN true # USER agent\n", "ends with USER root: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := findProject(t, newProject(t, map[string]string{sandboxDockerfile: head + tc.steps}))
			assert.Equal(t, len(p.Notes) > 0, tc.noted != "")
			assert.Assert(t, cmp.Contains(strings.Join(p.Notes, "\n"), tc.noted))
		})
	}
}

func TestLayerWithoutTheAgentsImage(t *testing.T) {
	_, _, err := FindProject(t.Context(), newProject(t, map[string]string{sandboxDockerfile: "FROM debian\n"}))
	var mistake *FileError
	assert.Assert(t, errors.As(err, &mistake), "%v", err)
	assert.Assert(t, cmp.Contains(mistake.Message, "not based on the agent image"))
}

func TestBuildsWithoutANetwork(t *testing.T) {
	for _, tc := range []struct{ steps, refused string }{
		{"ADD a.tar b*/c /x/", ""},
		{"COPY a$b /x", ""},
		{"RUN curl https://example.com", ""}, // fails by itself
		{"ADD https://example.com/a /x", "Dockerfile.sandbox:3: ADD https://example.com/a: "},
		{"add --chmod=755 a http://169.254.169.254/latest /x", "Dockerfile.sandbox:3: ADD http://169.254.169.254/latest: "},
		{"ADD git@example.com:a/b.git /x", "ADD git@example.com:a/b.git: "},
		{`ADD ["a", "https://example.com/a", "/x"]`, "ADD https://example.com/a: "},
		{"ARG A=https://example.com/a\nADD $A /x", "Dockerfile.sandbox:4: ADD $A: "},
		{`ADD h\ttps://example.com /x`, "Dockerfile.sandbox:3: ADD "},
		{"ONBUILD ADD https://example.com/a /x", "Dockerfile.sandbox:3: ADD https://example.com/a: "},
	} {
		t.Run(tc.steps, func(t *testing.T) {
			p := Project{File: "Dockerfile.sandbox", Dockerfile: []byte(head + tc.steps + "\n"), NoNetwork: true}
			err := p.checkOffline()
			if tc.refused == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.refused)
			p.NoNetwork = false
			assert.NilError(t, p.checkOffline())
		})
	}
	packages := Project{File: "dependencies", Packages: []Package{{Name: "jq"}}, NoNetwork: true}
	assert.ErrorContains(t, packages.checkOffline(), `building dependencies: installing packages needs a network, and [image] network is "none"`)
}

func TestNothingIsBuiltWithoutApproval(t *testing.T) {
	p := findProject(t, newProject(t, map[string]string{sandboxDockerfile: plainLayer}))
	_, err := (&Builder{}).Ensure(t.Context(), Request{Agent: "shell", Project: &p}) // no engine is asked
	assert.Error(t, err, "building "+p.File+": not approved")
}

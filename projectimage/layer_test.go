package projectimage

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

const head = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"

func TestLayerUser(t *testing.T) {
	for _, tc := range []struct {
		name, dockerfile string
		want             bool
	}{
		{"none", head, true},
		{"back to agent", head + "USER root\nUSER agent\n", true},
		{"with a group", head + "USER root\nUSER agent:staff\n", true},
		{"by number", head + "USER root\nUSER 1000\n", true},
		{"root", head + "USER root\nRUN true\n", false},
		{"root in the stage below", "ARG BASE_IMAGE\nFROM $BASE_IMAGE AS one\nUSER root\nFROM one\nRUN true\n", false},
		{"root in another stage", "ARG BASE_IMAGE\nFROM debian AS one\nUSER root\nFROM $BASE_IMAGE\nRUN true\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readLayer("Dockerfile.sandbox", []byte(tc.dockerfile))
			assert.NilError(t, err)
			assert.Equal(t, got, tc.want)
		})
	}
}

func TestLayerBase(t *testing.T) {
	for _, tc := range []struct {
		name, dockerfile string
		line             int // of the mistake; 0 for none
	}{
		{"as it should be", head, 0},
		{"without braces", "ARG BASE_IMAGE\nFROM $BASE_IMAGE\n", 0},
		{"with a default", "ARG BASE_IMAGE=debian\nFROM ${BASE_IMAGE:-debian}\n", 0},
		{"with a platform", "ARG BASE_IMAGE\nFROM --platform=linux/amd64 ${BASE_IMAGE}\n", 0},
		{"by another argument", "ARG BASE_IMAGE\nARG X=${BASE_IMAGE}\nFROM $X\n", 0},
		{"by stages", "ARG BASE_IMAGE\nFROM golang AS build\nFROM ${BASE_IMAGE} AS One\nFROM one AS two\nFROM two\nCOPY --from=build /a /a\n", 0},
		{"by stages with one name", "ARG BASE_IMAGE\nFROM debian AS one\nFROM ${BASE_IMAGE} AS one\nFROM one\n", 0},
		{"CRLF", "ARG BASE_IMAGE\r\nFROM ${BASE_IMAGE}\r\nUSER agent\r\n", 0},
		{"syntax", "# syntax=docker/dockerfile:1\n" + head, 0},
		{"another image", "ARG BASE_IMAGE\nFROM debian:12\n", 2},
		{"scratch", "ARG BASE_IMAGE\nFROM scratch\nCOPY --from=x / /\n", 2},
		{"another image in the last stage", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS one\nFROM debian\nCOPY --from=one / /\n", 3},
		{"another image by stages", "ARG BASE_IMAGE\nFROM debian AS one\nFROM ${BASE_IMAGE}\nFROM one\n", 2},
		{"an argument that is not declared", "FROM ${BASE_IMAGE}\n", 1},
		{"declared too late", "FROM ${BASE_IMAGE}\nARG BASE_IMAGE\n", 1},
		{"escapes", "FROM \x1b[31mx\n", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := readLayer("Dockerfile.sandbox", []byte(tc.dockerfile))
			if tc.line == 0 {
				assert.NilError(t, err)
				return
			}
			var mistake *FileError
			assert.Assert(t, errors.As(err, &mistake), "%v", err)
			assert.Equal(t, mistake.Line, tc.line)
			assert.Assert(t, cmp.Contains(mistake.Message, "and not on the agent's image, so there would be no agent in it"))
		})
	}
}

func TestLayerCannotBeRead(t *testing.T) {
	for _, tc := range []struct{ name, dockerfile, want string }{
		{"empty", "", "file with no instructions"},
		{"no FROM", "ARG BASE_IMAGE\n", "it has no FROM"},
		{"heredoc without an end", head + "RUN <<EOF\nx\n", "unterminated heredoc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := readLayer("Dockerfile.sandbox", []byte(tc.dockerfile))
			assert.ErrorContains(t, err, "Dockerfile.sandbox:")
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestLayerAsksForTooMuch(t *testing.T) {
	for _, tc := range []struct {
		name, steps, refused string
	}{
		{"host's network", "RUN --network=host true", "RUN --network=host is not allowed: "},
		{"more rights", "run --mount=type=cache,target=/c --security=insecure true", "RUN --security=insecure is not allowed: "},
		{"in a later stage", "ONBUILD RUN --network=host true", "RUN --network=host is not allowed: "},
		{"no network", "RUN --network=none true", ""},
		{"as many rights", "RUN --security=sandbox true", ""},
		{"for a program", "RUN docker run --network=host x", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := readLayer("Dockerfile.sandbox", []byte(head+tc.steps+"\n"))
			if tc.refused == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, "Dockerfile.sandbox:3: "+tc.refused)
		})
	}
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

func FuzzReadLayer(f *testing.F) {
	for _, seed := range []string{
		head, head + "COPY <<EOF /a\nx\nEOF\n", "FROM a AS a\nFROM a\n", "ARG A=$A\nFROM $A AS $A\nFROM ${A:-x}\n", "FROM\n", "ARG\nFROM x AS\n",
		head + "RUN --mount=\"\n", "# escape=`\nFROM x`\ny\n", "USER\nFROM x\nUSER\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, dockerfile []byte) {
		_, err := readLayer("Dockerfile.sandbox", dockerfile)
		var mistake *FileError
		assert.Assert(t, err == nil || errors.As(err, &mistake), "%v", err)
	})
}

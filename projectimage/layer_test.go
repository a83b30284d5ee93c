package projectimage

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

const head = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"

func TestContextSources(t *testing.T) {
	for _, tc := range []struct {
		name, steps string
		want        []string
	}{
		{"nothing", "RUN true", nil},
		{"COPY", "COPY a /b", []string{"a"}},
		{"COPY in lower case", "copy a /b", []string{"a"}},
		{"COPY as JSON", `COPY ["a", "b", "/c/"]`, []string{"a", "b"}},
		{"COPY with flags", "COPY --chown=agent --link a /b", []string{"a"}},
		{"COPY of everything", "COPY . /b", []string{"."}},
		{"COPY of everything and more", "COPY a ./ /b/", []string{"."}},
		{"COPY of another spelling", "COPY /a/./b/ ../../c /d/", []string{"a/b", "c"}},
		{"COPY with a pattern", "COPY a*/?.sh /b/", []string{"a*/?.sh"}},
		{"COPY with an argument", "ARG x\nCOPY a $x /b", []string{"."}},
		{"COPY with an escape", `COPY a\ b /b`, []string{"."}},
		{"COPY with quotes", `COPY 'a' /b`, []string{"."}},
		{"COPY of a stage", "COPY --from=0 /a /b", nil},
		{"COPY of an image", "COPY --chmod=755 --from=busybox:1 /bin/sh /b", nil},
		{"COPY of a heredoc", "COPY <<EOF /b\nhello a /c\nEOF", nil},
		{"COPY of heredocs", "COPY <<one <<-\"two\" /b/\n1\none\n2\ntwo", nil},
		{"COPY of a heredoc and a file", "COPY <<EOF a /b/\nhello\nEOF", []string{"a"}},
		{"ADD", "ADD a.tar /b", []string{"a.tar"}},
		{"ADD of an address", "ADD https://example.com/a.tar /b", nil},
		{"ADD of a repository", "ADD git@github.com:a/b.git /b", nil},
		{"ADD of both", "ADD https://example.com/a.tar b /c/", []string{"b"}},
		{"RUN with a cache", "RUN --mount=type=cache,target=/c true", nil},
		{"RUN with a secret", "RUN --mount=type=secret,id=x true", nil},
		{"RUN with the context", "RUN --mount=type=bind,target=/c true", []string{"."}},
		{"RUN with the context, quoted", `RUN --mount="type=bind,target=/c" true`, []string{"."}},
		{"RUN with the default kind", "RUN --mount=target=/c true", []string{"."}},
		{"RUN with a kind that is an argument", "ARG k\nRUN --mount=type=$k,source=a,target=/c true", []string{"a"}},
		{"RUN with a part of the context", "RUN --mount=type=cache,target=/d --mount=target=/c,source=a true", []string{"a"}},
		{"RUN with another part", "RUN --mount=target=/c,src=/a/b true", []string{"a/b"}},
		{"RUN with a part that is an argument", "ARG x\nRUN --mount=target=/c,source=$x true", []string{"."}},
		{"RUN with a stage", "RUN --mount=type=bind,from=0,target=/c true", nil},
		{"RUN with a heredoc", "RUN <<EOF\nCOPY a /b\nEOF", nil},
		{"several", "COPY a /a\nRUN true\nADD b /b", []string{"a", "b"}},
		{"a comment", "# COPY a /b\nRUN echo COPY a /b", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readLayer("Dockerfile.sandbox", []byte(head+tc.steps+"\n"))
			assert.NilError(t, err)
			assert.DeepEqual(t, got.sources, tc.want)
		})
	}
}

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
			assert.Equal(t, got.sandboxUser, tc.want)
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

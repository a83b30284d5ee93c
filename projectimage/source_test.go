package projectimage

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

const sourceFile = `ARG BASE_IMAGE
FROM ${BASE_IMAGE}
# A comment.
RUN one; \
    two
COPY  a   b
RUN three $N
RUN two
`

func TestLocate(t *testing.T) {
	for _, tc := range []struct {
		name, step  string
		first, last int
	}{
		{"over two lines", "[2/3] RUN one;     two", 4, 5},
		{"with a stage", "[builder 3/3] COPY a b", 6, 6},
		{"without a number", "RUN one; two", 4, 5},
		{"of another file", "[internal] load metadata for x", 0, 0},
		{"with an argument filled in", "[3/4] RUN three times", 7, 7},
		{"any of several", "[3/4] RUN t", 0, 0},
		{"none", "", 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, last, ok := locate([]byte(sourceFile), tc.step)
			assert.Equal(t, ok, tc.first > 0)
			if ok {
				assert.Equal(t, first, tc.first)
				assert.Equal(t, last, tc.last)
			}
		})
	}
}

func TestExcerpt(t *testing.T) {
	assert.Equal(t, excerpt("Dockerfile", []byte(sourceFile), 4, 5), `Dockerfile:4
    3 |     # A comment.
    4 | >>> RUN one; \
    5 | >>>     two
    6 |     COPY  a   b`)
	assert.Equal(t, excerpt("Dockerfile", []byte(sourceFile), 1, 0), `Dockerfile:1
    1 | >>> ARG BASE_IMAGE
    2 |     FROM ${BASE_IMAGE}`)
	assert.Equal(t, excerpt("Dockerfile", []byte(sourceFile), 9, 9), "")
}

func TestExcerptOfALongStep(t *testing.T) {
	got := excerpt("Dockerfile", []byte("FROM x\nRUN \\\n"+strings.Repeat("  a \\\n", 40)+"  end\nUSER y\n"), 2, 43)
	assert.Equal(t, strings.Count(got, ">>>"), sourceMax+2)
	assert.Assert(t, cmp.Contains(got, "\n      | >>> …\n   43 | >>>   end\n   44 |     USER y"))
}

func TestParseErrorOfAnOldBuildKit(t *testing.T) {
	const heredoc = "FROM x\nRUN <<EOF\nset -e\nEOF\n"
	err := errors.New("failed to create LLB definition: dockerfile parse error line 3: unknown instruction: SET")
	assert.Assert(t, cmp.Contains(failedSource("Dockerfile", []byte(heredoc), err, ""), "Dockerfile:3\n    2 |     RUN <<EOF\n    3 | >>> set -e"))
	assert.Assert(t, tooNew([]byte(heredoc), err))
	assert.Assert(t, !tooNew([]byte(heredoc), errors.New("exit code: 1")))
	assert.Assert(t, !tooNew([]byte("# syntax=docker/dockerfile:1\n"+heredoc), err))
	assert.Assert(t, !tooNew([]byte("FROM x\nRUNN\nset -e\n"), err), "no BuildKit knows RUNN")
}

func FuzzLocate(f *testing.F) {
	f.Add([]byte(sourceFile), "[2/3] RUN one;     two")
	f.Add([]byte("FROM x\r\nRUN a\r\n"), "RUN a")
	f.Fuzz(func(t *testing.T, dockerfile []byte, step string) {
		first, last, ok := locate(dockerfile, step)
		if ok {
			assert.Assert(t, 1 <= first && first <= last)
			assert.Assert(t, excerpt("Dockerfile", dockerfile, first, last) != "")
		}
	})
}

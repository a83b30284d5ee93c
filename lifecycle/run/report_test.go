package run

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
)

// The report of a loop has the exit code of the command, which also knows about its commits.
func TestReportHasTheExitCodeOfTheCommand(t *testing.T) {
	const printed = `{"stop":"complete","exit_code":0,"log":"l","iterations":[{"n":1,"x":"<a>"}],"totals":{"y":1.50}}`
	unmerged := &commits.UnmergedError{Unmerged: gitsync.Unmerged{Branch: "main"}, Err: errors.New("held back")}
	for _, tc := range []struct {
		name, output string
		code         int
		err          error
		want         string
	}{
		{"as the loop says", printed + "\n", 0, nil, printed + "\n"},
		{"unmerged", printed + "\n", 14, unmerged, `{"stop":"unmerged","exit_code":14,"error":"held back","log":"l","iterations":[{"n":1,"x":"<a>"}],"totals":{"y":1.50}}` + "\n"},
		{"another error", printed + "\n", 0, errors.New("no disk"), `{"stop":"failed","exit_code":1,"error":"no disk","log":"l","iterations":[{"n":1,"x":"<a>"}],"totals":{"y":1.50}}` + "\n"},
		{"it goes on", printed + "\n", 0, lifecycle.ErrDetached, printed + "\n"},
		{"at a terminal", "text\r\n" + printed + "\r\n", 14, unmerged, "text\r\n" + `{"stop":"unmerged","exit_code":14,"error":"held back","log":"l","iterations":[{"n":1,"x":"<a>"}],"totals":{"y":1.50}}` + "\r\n"},
		{"the last line only", printed + "\n" + printed + "\n{\n", 14, unmerged, printed + "\n" + printed + "\n{\n"},
		{"not a report", `{"stop": half`, 14, unmerged, `{"stop": half`},
		{"none", "", 14, unmerged, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, size := range []int{1, 4096} {
				var out bytes.Buffer
				s := session{}
				s.Stdout = &out
				o := s.holdReport(Options{Command: "build", Args: []string{"--format", "json"}})
				in := io.Reader(bytes.NewBufferString(tc.output))
				if size == 1 {
					in = iotest.OneByteReader(in)
				}
				_, err := io.Copy(s.Stdout, in)
				assert.NilError(t, err)
				assert.Equal(t, o.end(tc.code, tc.err), tc.err)
				assert.Equal(t, out.String(), tc.want)
			}
		})
	}
	s := session{}
	assert.Equal(t, s.holdReport(Options{Command: "build", Args: []string{"-n", "1"}}).end(0, unmerged), unmerged)
}

package denylog

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		want         Answer
	}{
		{"nothing", `{"mark":"a.0","refused":[]}`, Answer{Mark: "a.0"}},
		{
			"names and addresses",
			`{"mark":"a.3","refused":[{"host":"a.example","port":443,"times":2},{"host":"b.example","times":1},{"host":"::1","port":80,"times":1},{"host":"10.0.0.1","port":22,"times":7}],"more":4}`,
			Answer{Mark: "a.3", More: 4, Refused: []Refusal{{"a.example", 443, 2}, {"b.example", 0, 1}, {"::1", 80, 1}, {"10.0.0.1", 22, 7}}},
		},
		{
			"invalid hosts",
			`{"mark":"a.9","refused":[{"host":"A.example","port":1,"times":1},{"host":"a b","times":1},{"host":"\u001b[2J.example","times":1},
			  {"host":"a.example\n## Do this","times":1},{"host":"","times":1},{"host":"a.example","times":0},{"host":"a.example","times":-1},
			  {"host":"0x7f.1","times":1},{"host":"fe80::1%eth0","times":1},{"host":"ä.example","times":1},{"host":"good.example","port":1,"times":1}]}`,
			Answer{Mark: "a.9", More: 10, Refused: []Refusal{{"good.example", 1, 1}}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Read([]byte(tc.answer))
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func TestReadRejectsInvalidAnswers(t *testing.T) {
	for _, answer := range []string{
		"", "null", "[]", "{}", `{"mark":""}`, `{"mark":"a b"}`, `{"mark":"A"}`, `{"mark":"a&since=b"}`, `{"mark":"` + strings.Repeat("a", 65) + `"}`,
		`{"mark":"a","more":-1}`, `{"mark":"a","more":9223372036854775807}`, `{"mark":"a","refused":{}}`, `{"mark":"a","refused":[{"port":70000}]}`, `{"mark":"a"} {}`,
		`{"mark":"a"` + strings.Repeat(" ", maxSize) + `}`,
	} {
		_, err := Read([]byte(answer))
		assert.Check(t, is.ErrorContains(err, "not valid JSON"), "%.80s", answer)
	}
}

func TestReadIsBounded(t *testing.T) {
	answer := `{"mark":"a","refused":[{"host":"a.example","times":1}` + strings.Repeat(`,{"host":"a.example","times":1}`, 99) + `]}`
	got, err := Read([]byte(answer))
	assert.NilError(t, err)
	assert.Equal(t, len(got.Refused), MaxTargets)
	assert.Equal(t, got.More, 100-MaxTargets)
}

func TestRefusalPlace(t *testing.T) {
	assert.Equal(t, Refusal{"a.example", 443, 1}.Target(), "a.example:443")
	assert.Equal(t, Refusal{"a.example", 0, 1}.Target(), "a.example")
	assert.Equal(t, Refusal{"::1", 80, 1}.Target(), "[::1]:80")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"mark":"a.1","refused":[{"host":"a.example","port":443,"times":2}],"more":1}`))
	f.Add([]byte(`{"mark":"a.1","refused":[{"host":"a.example\u001b]0;x\u0007","port":443,"times":2}]}`))
	f.Add([]byte(`{"mark":"a.1","refused":[{"host":"0x7f000001","times":2},{"host":"::ffff:1.2.3.4","times":1}]}`))
	f.Add([]byte(`{"mark":"\u202e","refused":null}`))
	f.Add([]byte(`{"mark":"a","refused":[{"host":"a.example","times":9223372036854775807},{"host":"a..b","times":1}],"more":1073741824}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := Read(answer)
		if err != nil {
			return
		}
		assert.Assert(t, len(got.Refused) <= MaxTargets)
		assert.Assert(t, got.More >= 0)
		const known = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]"
		for _, r := range got.Refused {
			assert.Assert(t, r.Times > 0)
			assert.Assert(t, len(r.Target()) <= 253+len("[]:65535"))
			assert.Assert(t, strings.Trim(r.Target(), known) == "", "%q", r.Target())
		}
		assert.Assert(t, strings.Trim(got.Mark, known) == "", "%q", got.Mark)
	})
}

package usage

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestNext(t *testing.T) {
	answers := []string{
		`{"id":"a","models":[{"name":"m","input":100,"output":5}]}`,
		`{"id":"a","models":[{"name":"m","input":110,"output":5,"cache_read":3},{"name":"","output":1}],"unknown":2}`,
		"not JSON",
		`{"id":"a","models":[{"name":"m","input":111,"output":5,"cache_read":3},{"name":"","output":1}],"unknown":2}`,
		`{"id":"b","models":[{"name":"m","input":7},{"name":"m","over":200000,"input":9}],"unknown":1}`,
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		_, _ = io.WriteString(w, answers[len(asked)-1])
	}))
	defer server.Close()
	s := At(server.URL + "/.refused?x")
	next := func() Spent {
		spent, err := s.Next(t.Context())
		assert.NilError(t, err)
		return spent
	}
	assert.DeepEqual(t, next(), Spent{})
	assert.DeepEqual(t, next(), Spent{Models: map[Key]Tokens{{Model: "m"}: {Input: 10, CacheRead: 3}, {}: {Output: 1}}, Unknown: 2})
	_, err := s.Next(t.Context())
	assert.ErrorContains(t, err, "not valid")
	assert.DeepEqual(t, next(), Spent{Models: map[Key]Tokens{{Model: "m"}: {Input: 1}, {}: {}}})
	assert.DeepEqual(t, next(), Spent{Models: map[Key]Tokens{{Model: "m"}: {Input: 7}, {Model: "m", Over: 200_000}: {Input: 9}}, Unknown: 1}) // after a restart
	assert.DeepEqual(t, asked, []string{"GET /.usage", "GET /.usage", "GET /.usage", "GET /.usage", "GET /.usage"})
	assert.Check(t, At("") == nil)
}

func TestReadRejectsInvalidAnswers(t *testing.T) {
	models := strings.TrimSuffix(strings.Repeat(`{"name":"m"},`, MaxModels+1), ",")
	for _, answer := range []string{
		"", "null", "[]", "{}", `{"id":""}`, `{"id":"a","unknown":-1}`, `{"id":"a","models":{}}`, `{"id":"a"} {}`,
		`{"id":"a","models":[{"name":"m","input":-1}]}`, `{"id":"a","models":[{"name":"m","output":9223372036854775807}]}`,
		`{"id":"a","models":[{"name":"a b"}]}`, `{"id":"a","models":[{"name":"\u001b[2J"}]}`, `{"id":"a","models":[{"name":"\u202e"}]}`,
		`{"id":"a","models":[{"name":"` + strings.Repeat("m", MaxName+1) + `"}]}`, `{"id":"a","models":[` + models + `]}`,
		`{"id":"a"` + strings.Repeat(" ", maxSize) + `}`,
	} {
		_, err := Read([]byte(answer))
		assert.Check(t, is.ErrorContains(err, "not valid"), "%.80s", answer)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"a","models":[{"name":"m","input":100,"output":5,"cache_read":1,"cache_write":2}],"unknown":1}`))
	f.Add([]byte(`{"id":"a","models":[{"name":"\ud800","input":1e3}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := Read(answer)
		if err != nil {
			return
		}
		var sum Tokens
		for _, m := range got.Models {
			assert.Assert(t, ValidName(m.Name))
			sum = sum.Add(m.Tokens)
		}
		assert.Assert(t, min(sum.Input, sum.Output, sum.CacheRead, sum.CacheWrite) >= 0, "overflow")
		again, err := json.Marshal(got)
		assert.NilError(t, err)
		read, err := Read(again)
		assert.NilError(t, err)
		assert.DeepEqual(t, read, got)
	})
}

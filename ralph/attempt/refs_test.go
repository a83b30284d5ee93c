package attempt

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

func TestKeepAndPublish(t *testing.T) {
	w, sh := repo(t)
	first := attemptref.ID{Task: "a/1", N: 1}
	ref, err := w.Keep(t.Context(), first, "HEAD")
	assert.NilError(t, err)
	assert.Equal(t, ref, "refs/ralph/refused/a/1/1")
	assert.Equal(t, sh("git rev-parse "+ref), sh("git rev-parse HEAD"))

	published, err := w.Publish(t.Context(), first, ref)
	assert.NilError(t, err)
	assert.Equal(t, published, "refs/heads/ralph-attempts/a/1/1")
	assert.Equal(t, sh("git for-each-ref --format='%(refname)' refs/ralph"), "")

	sh("GIT_COMMITTER_DATE='2040-01-01 00:00Z' git commit -q --allow-empty -m later")
	again, err := w.Keep(t.Context(), first, "HEAD")
	assert.NilError(t, err)
	assert.DeepEqual(t, w.List(t.Context()), map[string][]string{"a/1": {again, published}})
	published, err = w.Publish(t.Context(), first, again)
	assert.NilError(t, err)
	assert.Equal(t, published, "refs/heads/ralph-attempts/a/1/1-2")

	_, err = w.Publish(t.Context(), first, "refs/ralph/refused/gone/1")
	assert.ErrorContains(t, err, "publishing refs/ralph/refused/gone/1: ")
	_, err = w.Keep(t.Context(), first, "gone")
	assert.ErrorContains(t, err, "keeping the commits of task a/1: ")
}

package backlog

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func ask(t *testing.T, s *Store, slug, agent string, q NewQuestion) {
	t.Helper()
	claim(t, s, slug, agent)
	assert.NilError(t, s.Ask(t.Context(), slug, agent, q))
}

// A question parks its task, also for dependent tasks, until it is answered.
func TestAskParksTheTaskUntilTheAnswer(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "behind")
	assert.NilError(t, s.Block(t.Context(), "behind", "a"))
	ask(t, s, "a", "me", NewQuestion{Text: "Which store?", Options: []string{"cookie", "redis"}})

	task := get(t, s, "a")
	assert.Equal(t, task.Status, StatusQuestion)
	assert.Equal(t, task.Assigned, false)
	assert.Equal(t, task.LeaseExpiresAt, "")
	assert.Equal(t, task.RetryCount, 0)
	q, ok := task.Pending()
	assert.Assert(t, ok)
	assert.DeepEqual(t, q.Options, []string{"cookie", "redis"})
	assert.Equal(t, len(task.Answered()), 0)
	waiting, err := s.Questions(t.Context())
	assert.NilError(t, err)
	assert.DeepEqual(t, slugs(waiting), []string{"a"})
	counts, err := s.Counts(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, counts, Counts{Blocked: 1, Waiting: 1, Questions: 1})
	for slug, want := range map[string]error{"a": ErrNotEligible, "behind": ErrNotEligible, "": ErrNoneEligible} {
		_, err := s.Claim(t.Context(), ClaimOptions{Slug: slug, Agent: "you"})
		assert.ErrorIs(t, err, want)
	}
	claimable, _, err := s.Peek(t.Context(), -1)
	assert.NilError(t, err)
	assert.Equal(t, len(claimable), 0)

	answered, err := s.Answer(t.Context(), "a", " neither: use SQLite\n")
	assert.NilError(t, err)
	assert.Equal(t, answered.Answer, "neither: use SQLite")
	task = claim(t, s, "", "you")
	assert.Equal(t, task.Slug, "a")
	assert.DeepEqual(t, task.Answered(), []Question{answered})
	assert.Assert(t, !answered.AskedAt.IsZero() && !answered.AnsweredAt.Before(answered.AskedAt))
	_, err = s.Answer(t.Context(), "a", "redis")
	assert.Error(t, err, "task 'a' has no open question (status: active)")

	assert.NilError(t, s.Ask(t.Context(), "a", "you", NewQuestion{Text: "Which file?"}))
	assert.DeepEqual(t, get(t, s, "a").Answered(), []Question{answered})
	_, err = s.Answer(t.Context(), "a", "")
	assert.Error(t, err, "the question of task 'a' has no default answer")
	_, err = s.Answer(t.Context(), "none", "x")
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestOnlyTheHolderOfATaskMayAsk(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "open")
	claim(t, s, "a", "me")
	question := NewQuestion{Text: "Why?"}
	assert.ErrorIs(t, s.Ask(t.Context(), "open", "me", question), ErrNotActive)
	assert.ErrorIs(t, s.Ask(t.Context(), "a", "you", question), ErrNotAssignee)
	assert.ErrorIs(t, s.Ask(t.Context(), "none", "me", question), ErrNotFound)
	assert.Error(t, s.Ask(t.Context(), "a", "me", NewQuestion{Text: " "}), "a question requires a text")
	assert.ErrorContains(t, s.Ask(t.Context(), "a", "me", NewQuestion{Text: "Why?", DefaultAfter: time.Hour}), "a default answer is required")
	query(t, s.path, "UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00' WHERE slug = 'a'")
	claim(t, s, "a", "you")
	assert.ErrorIs(t, s.Fence("a", 1).Ask(t.Context(), "a", "me", question), ErrLost)
	assert.Equal(t, get(t, s, "a").Status, StatusActive)
}

// backdate moves the default of a pending question into the past.
func backdate(t *testing.T, s *Store, slug string) {
	t.Helper()
	query(t, s.path, "UPDATE tasks SET questions = json_set(questions, '$[#-1].default_at', '2001-01-01T00:00:00Z') WHERE slug = '"+slug+"'")
}

func TestDefaultsApplyWhenTheirTimeIsUp(t *testing.T) {
	s := newStore(t)
	add(t, s, "due", "early", "never")
	later := NewQuestion{Text: "Which?", Options: []string{"x", "y"}, Default: "y", DefaultAfter: 8 * time.Hour}
	ask(t, s, "due", "me", later)
	ask(t, s, "early", "me", later)
	ask(t, s, "never", "me", NewQuestion{Text: "Which?", Default: "y"})
	assert.Equal(t, query(t, s.path, "SELECT strftime('%s', questions ->> '$[0].default_at') - strftime('%s', questions ->> '$[0].asked_at') FROM tasks WHERE slug = 'due'"), "28800\n")
	slugs, err := s.ApplyDefaults(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(slugs), 0)

	backdate(t, s, "due")
	slugs, err = s.ApplyDefaults(t.Context())
	assert.NilError(t, err)
	assert.DeepEqual(t, slugs, []string{"due"})
	answered := get(t, s, "due").Answered()
	assert.Equal(t, answered[0].Answer, "y")
	assert.Equal(t, answered[0].Defaulted, true)
	assert.Equal(t, get(t, s, "due").Status, StatusOpen)

	q, err := s.Answer(t.Context(), "never", "")
	assert.NilError(t, err)
	assert.Equal(t, q.Answer, "y")
	assert.Equal(t, q.Defaulted, false, "the user accepted it")

	backdate(t, s, "early")
	assert.Equal(t, claim(t, s, "early", "you").Answered()[0].Answer, "y", "a claim applies defaults too")
}

func TestOneOfSeveralAnswersWins(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	ask(t, s, "a", "me", NewQuestion{Text: "Which?"})
	const n = 4
	errs := make(chan error, n)
	for range n {
		other := openStore(t, s.path, testScope())
		go func() {
			_, err := other.Answer(t.Context(), "a", "x")
			errs <- err
		}()
	}
	won := 0
	for range n {
		if err := <-errs; err == nil {
			won++
		} else {
			assert.Check(t, cmp.ErrorContains(err, "has no open question"))
		}
	}
	assert.Equal(t, won, 1)
}

// A finished task that cannot be checked waits for the user, and has not failed.
func TestParkedTaskWaitsForTheUser(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	claim(t, s, "a", "me")
	assert.ErrorIs(t, s.Park(t.Context(), "a", NewQuestion{Text: "Is the check right?"}), ErrNotEligible)
	assert.NilError(t, s.Done(t.Context(), "a", ""))
	assert.NilError(t, s.Park(t.Context(), "a", NewQuestion{Text: "Is the check right?", Options: []string{"yes"}}))
	task := get(t, s, "a")
	assert.Equal(t, task.Status, StatusQuestion)
	assert.Equal(t, task.RetryCount, 0)
	assert.Equal(t, task.Assigned, false)
	q, ok := task.Pending()
	assert.Assert(t, ok && q.Text == "Is the check right?")
	_, err := s.Answer(t.Context(), "a", "yes")
	assert.NilError(t, err)
	assert.Equal(t, get(t, s, "a").Status, StatusOpen)

	assert.NilError(t, s.Park(t.Context(), "a", NewQuestion{Text: "Allow it?"}), "a task whose run has failed")
	assert.Equal(t, get(t, s, "a").Status, StatusQuestion)
	assert.ErrorIs(t, s.Park(t.Context(), "a", NewQuestion{Text: "And this?"}), ErrNotEligible)
}

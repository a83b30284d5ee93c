package session

import (
	"net/http"
	"slices"
	"sync"
)

const (
	// maxAnswers and maxRemembered bound the number and the size, in bytes, of remembered answers.
	maxAnswers    = 64
	maxRemembered = 32 << 20
)

// answers remembers the answers to the last requests: one whose answer was lost is repeated.
type answers struct {
	mu  sync.Mutex
	all []*answer // oldest first
}

type answer struct {
	id     string
	done   chan struct{} // closed when the others are set
	status int
	body   []byte
}

// once answers a request, or waits for the answer to an earlier one with the same ID.
func (a *answers) once(id string, serve func() (status int, body []byte)) (status int, body []byte) {
	this, repeated := a.find(id)
	if repeated {
		<-this.done
		return this.status, this.body
	}
	status = http.StatusInternalServerError // after a panic
	defer func() { a.finish(this, status, body) }()
	status, body = serve()
	return status, body
}

func (a *answers) find(id string) (this *answer, repeated bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.all, func(other *answer) bool { return other.id == id })
	if i >= 0 {
		return a.all[i], true
	}
	this = &answer{id: id, done: make(chan struct{})}
	a.all = append(a.all, this)
	return this, false
}

// finish sets an answer, and forgets the oldest ones.
func (a *answers) finish(this *answer, status int, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	this.status, this.body = status, body
	close(this.done)
	size := 0
	for _, other := range a.all {
		size += len(other.body)
	}
	for len(a.all) > maxAnswers || len(a.all) > 1 && size > maxRemembered {
		size -= len(a.all[0].body)
		a.all = a.all[1:]
	}
}

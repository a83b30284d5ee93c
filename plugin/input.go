package plugin

import (
	"io"
	"sync"
)

// input is the user's input, for one reader after another. A read of a terminal cannot
// be cancelled: its result goes to the next reader.
type input struct {
	from io.Reader
	came chan typed // from the only pending read

	mu      sync.Mutex
	reading bool
	rest    typed
	over    chan struct{} // closed when another reader takes over
}

type typed struct {
	data []byte
	err  error
}

func newInput(from io.Reader) *input {
	return &input{from: from, came: make(chan typed, 1), over: make(chan struct{})}
}

// take ends the input for the current reader.
func (in *input) take() {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(in.over)
	in.over = make(chan struct{})
}

// Read implements [io.Reader]. It ends when another reader takes over.
func (in *input) Read(p []byte) (int, error) {
	in.mu.Lock()
	if len(in.rest.data) > 0 || in.rest.err != nil {
		defer in.mu.Unlock()
		return in.hand(p)
	}
	if !in.reading {
		in.reading = true
		go func() {
			buf := make([]byte, 4096)
			n, err := in.from.Read(buf)
			in.came <- typed{buf[:n], err}
		}()
	}
	over := in.over
	in.mu.Unlock()
	select {
	case <-over:
		return 0, io.EOF
	case t := <-in.came:
		in.mu.Lock()
		defer in.mu.Unlock()
		if over != in.over { // it is for the next reader
			in.came <- t
			return 0, io.EOF
		}
		in.rest, in.reading = t, false
		return in.hand(p)
	}
}

// hand returns the typed data, and then the end.
func (in *input) hand(p []byte) (int, error) {
	n := copy(p, in.rest.data)
	in.rest.data = in.rest.data[n:]
	if len(in.rest.data) > 0 {
		return n, nil
	}
	err := in.rest.err
	in.rest.err = nil
	return n, err
}

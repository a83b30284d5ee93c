package plugin

import (
	"bufio"
	"io"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// What is typed after another reader has taken over is for that one, although the
// one before still waits.
func TestInputGoesToTheLastReader(t *testing.T) {
	r, w := io.Pipe()
	in := newInput(r)
	first := make(chan string)
	go func() {
		defer close(first)
		for buf := make([]byte, 100); ; {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			first <- string(buf[:n])
		}
	}()
	_, err := w.Write([]byte("to the agent"))
	assert.NilError(t, err)
	assert.Equal(t, <-first, "to the agent")
	poll.WaitOn(t, func(poll.LogT) poll.Result { // until it waits for more
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.reading {
			return poll.Success()
		}
		return poll.Continue("nobody reads")
	}, poll.WithDelay(time.Millisecond))
	in.take()
	_, more := <-first
	assert.Assert(t, !more)

	go func() {
		_, _ = w.Write([]byte("yes\nand"))
		_ = w.CloseWithError(io.EOF)
	}()
	line, err := bufio.NewReader(io.LimitReader(in, 4)).ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, "yes\n")
	in.take()
	rest, err := io.ReadAll(in)
	assert.NilError(t, err)
	assert.Equal(t, string(rest), "and")
}

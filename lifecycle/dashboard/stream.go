package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
)

// streamInterval is how often a page gets news.
const streamInterval = 500 * time.Millisecond

// stream sends server-sent events until the page is closed: "state", and for a loop "backlog", its
// "events" as in its log, and the "output" of its current run.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		http.Error(w, "too many open pages", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{source: h.source, out: w, control: http.NewResponseController(w), last: map[string][]byte{}}
	defer s.close()
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	for {
		if s.update(r.Context(), r.FormValue("loop")) != nil {
			return // the page is closed
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

type stream struct {
	*source
	out     http.ResponseWriter
	control *http.ResponseController
	last    map[string][]byte // what was sent, by name
	sent    time.Time

	loop   loop
	opened bool
	offset int64 // of the events
	output *watch.Output
	run    int
}

func (s *stream) close() {
	if s.opened {
		s.loop.Close()
	}
}

// update sends what has changed. An error of the sandboxes is sent too: the page shows it.
func (s *stream) update(ctx context.Context, key string) error {
	state, err := s.State(ctx)
	if err != nil {
		return s.send("failure", err.Error())
	}
	age := state.Time
	state.Time = time.Time{}
	if err := s.sendChange("state", state); err != nil {
		return err
	}
	if key != "" {
		if err := s.updateLoop(ctx, key); err != nil {
			return err
		}
	}
	if time.Since(s.sent) > 10*time.Second { // it detects a page that was closed
		return s.send("alive", age)
	}
	return nil
}

func (s *stream) updateLoop(ctx context.Context, key string) (err error) {
	if !s.opened {
		if s.loop, err = s.open(ctx, key); err != nil {
			return s.sendChange("failure", err.Error())
		}
		s.opened = true
		s.offset, _ = s.loop.EventsWithin(maxEvents)
	}
	if err := s.sendChange("backlog", s.backlogOf(ctx, s.loop)); err != nil {
		return err
	}
	for {
		events, next, err := s.loop.Events(s.offset)
		if err != nil {
			return s.sendChange("failure", err.Error())
		}
		if next == s.offset {
			break
		}
		s.offset = next
		if err := s.send("events", events); err != nil {
			return err
		}
	}
	n := s.loop.Snapshot().Now.N
	begun := s.output == nil || n != s.run
	if begun {
		s.run, s.output = n, watch.OutputOf(n)
	}
	text, skipped, err := s.output.Next(s.loop.Log, maxOutput)
	if err != nil {
		text, skipped = "", false // the output of a pruned loop
	}
	if text == "" && !begun {
		return nil
	}
	return s.send("output", output{s.run, text, skipped}) // a run that is silent replaces the last one's
}

// sendChange sends a value unless it is the same as before.
func (s *stream) sendChange(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil || bytes.Equal(content, s.last[name]) {
		return err
	}
	s.last[name] = content
	return s.write(name, content)
}

func (s *stream) send(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.write(name, content)
}

// write writes an event. JSON has no line breaks.
func (s *stream) write(name string, content []byte) error {
	s.sent = time.Now()
	if _, err := fmt.Fprintf(s.out, "event: %s\ndata: %s\n\n", name, content); err != nil {
		return err
	}
	return s.control.Flush()
}

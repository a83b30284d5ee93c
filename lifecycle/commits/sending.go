package commits

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

const (
	// barAfter is how long sending commits may take before a terminal shows a bar, drawEvery how
	// often it is redrawn, and barWidth its width in columns: all fits in 80.
	barAfter  = time.Second
	drawEvery = 200 * time.Millisecond
	barWidth  = 24
	// sendingEvery is how often the progress is reported without a terminal.
	sendingEvery = 2 * time.Second
)

// sending reports the progress of a pack that is sent to a sandbox.
type sending struct {
	host host.Host
	name string // of the sandbox
	to   io.Writer
	size func() (int64, error)

	began, last time.Time // last is when it was reported
	sent        int64
	reported    bool
	total       atomic.Int64 // 0 while unknown
}

// progress returns a [gitsync.Progress] for a sandbox.
func progress(h host.Host, name string) func(to io.Writer, size func() (int64, error)) (io.Writer, func(error)) {
	return func(to io.Writer, size func() (int64, error)) (io.Writer, func(error)) {
		now := time.Now()
		s := &sending{host: h, name: name, to: to, size: size, began: now, last: now}
		return s, s.end
	}
}

// Write implements [io.Writer].
func (s *sending) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.sent += int64(n)
	every := sendingEvery
	switch {
	case s.host.Terminal != nil && s.reported:
		every = drawEvery
	case s.host.Terminal != nil:
		every = barAfter
	}
	now := time.Now()
	if now.Sub(s.last) < every {
		return n, err
	}
	s.last = now

	if s.host.Terminal == nil {
		s.host.Report(fmt.Sprintf("Sending commits to sandbox %s: %s (%s)", s.name, human(s.sent), s.rate()))
		return n, err
	}
	s.draw(s.total.Load())
	if !s.reported { // only a long transfer pays for the size
		s.reported = true
		go func() {
			if total, err := s.size(); err == nil {
				s.total.Store(total)
			}
		}()
	}
	return n, err
}

// end completes the bar, or leaves it as it is after an error.
func (s *sending) end(err error) {
	if s.host.Terminal == nil || !s.reported {
		return
	}
	if err == nil {
		s.draw(s.sent)
	}
	_, _ = fmt.Fprintln(s.host.Stderr)
}

// draw draws the bar. The total is an estimate: 100 % is only reached at the end.
func (s *sending) draw(total int64) {
	bar := human(s.sent)
	if total > 0 {
		percent := int(min(100*s.sent/total, 99))
		if s.sent == total {
			percent = 100
		}
		done := barWidth * percent / 100
		bar = fmt.Sprintf("[%s>%s] %3d%%  %s/%s", strings.Repeat("=", done), strings.Repeat(" ", barWidth-done), percent, bar, human(max(total, s.sent)))
	}
	_, _ = fmt.Fprintf(s.host.Stderr, "\r\x1b[KSending commits %s  %s", bar, s.rate())
}

func (s *sending) rate() string {
	return human(int64(float64(s.sent)/time.Since(s.began).Seconds())) + "/s"
}

func human(bytes int64) string { return units.HumanSize(float64(bytes)) }

package host

import (
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// PollInterval is how often the logs of a worktree are checked for runs that have ended.
const PollInterval = time.Second

// slowAfter is how long work may take before [Host.ReportSlow] reports it, and how often it
// reports again at a terminal.
const slowAfter = time.Second

// ReportSlow reports work that takes long, with the time at a terminal, until done is called.
func (h Host) ReportSlow(what string) (done func()) {
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(slowAfter)
		defer tick.Stop()
		reported := false
		for {
			select {
			case <-stop:
				if reported && h.Terminal != nil {
					_, _ = fmt.Fprint(h.Stderr, "\r\x1b[K")
				}
				return
			case now := <-tick.C:
				switch {
				case h.Terminal != nil:
					_, _ = fmt.Fprintf(h.Stderr, "\r\x1b[K%s (%ds)", termsafe.Line(what), int(now.Sub(began).Seconds()))
				case !reported:
					h.Report(what)
				}
				reported = true
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

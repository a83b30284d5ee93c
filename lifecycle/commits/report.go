package commits

import (
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// ReportSync prints the result of a sync.
func ReportSync(h host.Host, res gitsync.Result) {
	for _, note := range res.Notes() {
		h.Report(note)
	}
	if res.Conflict != nil {
		reportConflict(h, res.Conflict)
	}
}

func reportConflict(h host.Host, c *gitsync.Conflict) {
	h.Report("Warning: " + c.Error())
	h.Report("Hint: " + c.Hint())
}

// reportRepairs prints what was repaired, once.
func (g *Git) reportRepairs() {
	for _, note := range g.repairs {
		g.Host.Report(note)
	}
	g.repairs = nil
}

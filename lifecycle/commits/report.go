package commits

import (
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
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

// reportHooks reports hooks in the worktree that have changed while an agent ran: the
// user's next git command may run them.
func (g *Git) reportHooks(before hostgit.Hooks) {
	h := g.Host
	changed, err := before.Changed()
	if err != nil {
		h.Report(fmt.Sprintf("Warning: %v", err))
	}
	if len(changed) > 0 {
		h.Report(fmt.Sprintf("Warning: hooks in the worktree have changed: %s", strings.Join(changed, ", ")))
		h.Report("Hint: check them before you use git here: even git status can run hooks")
	}
}

// reportRepairs prints what was repaired, once.
func (g *Git) reportRepairs() {
	for _, note := range g.repairs {
		g.Host.Report(note)
	}
	g.repairs = nil
}

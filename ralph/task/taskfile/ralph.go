package taskfile

import "github.com/docker-ralph/docker-ralph/ralph/backlog"

// isRalph detects the lines of a plan.
func isRalph(values []value) bool { return sample(values).has("id", "t") }

// readRalph reads the lines of a plan, or an array of them.
func readRalph(r *reader, values []value) error {
	list, err := elements(values)
	if err != nil {
		return err
	}
	for _, v := range list {
		t, err := backlog.ParsePlanLine(v.raw)
		if err != nil {
			return lineError(v.line, "%w", err)
		}
		r.add(v.line, t)
	}
	return nil
}

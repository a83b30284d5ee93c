package projectimage

import (
	"fmt"
	"strings"
	"time"
)

// Filter selects images; the zero value selects all.
type Filter struct {
	Agent, Project string
	Until          time.Duration // older than this
}

// Set adds a condition: agent=NAME, project=NAME or until=DURATION.
func (f *Filter) Set(condition string) error {
	key, value, _ := strings.Cut(condition, "=")
	switch {
	case value == "":
	case key == "agent":
		f.Agent = value
		return nil
	case key == "project":
		f.Project = value
		return nil
	case key == "until":
		age, err := time.ParseDuration(value)
		if err != nil || age < 0 {
			return fmt.Errorf("invalid filter until=%q: use a duration such as 24h", value)
		}
		f.Until = age
		return nil
	}
	return fmt.Errorf("invalid filter %q: use agent=NAME, project=NAME or until=DURATION", condition)
}

// Matches reports whether an image meets all conditions.
func (f Filter) Matches(s Stored, now time.Time) bool {
	return (f.Agent == "" || f.Agent == s.Agent) &&
		(f.Project == "" || f.Project == s.Project) &&
		(f.Until == 0 || now.Sub(s.Created) > f.Until)
}

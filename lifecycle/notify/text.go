package notify

import (
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// String returns how much of a limit is used, in its unit.
func (l Limit) String() string {
	switch l.Name {
	case "max_cost_usd":
		return fmt.Sprintf("$%.2f of $%.2f (%s)", l.Used, l.Limit, l.Name)
	case "max_duration":
		return fmt.Sprintf("%s of %s (%s)", seconds(l.Used), seconds(l.Limit), l.Name)
	default:
		return fmt.Sprintf("%.0f of %.0f (%s)", l.Used, l.Limit, l.Name)
	}
}

func seconds(n float64) time.Duration {
	return time.Duration(n * float64(time.Second)).Round(time.Second)
}

// maxOptions bounds the options of a question in a text.
const maxOptions = 10

// askedText returns a question with its options, in one line.
func askedText(task *Task, q *runlog.Question) string {
	text := fmt.Sprintf("Task %s needs an answer: %s", task, termsafe.Line(q.Question))
	var options []string
	for i, option := range q.Options[:min(len(q.Options), maxOptions)] {
		option = fmt.Sprintf("%d. %s", i+1, termsafe.Line(option))
		if q.Options[i] == q.Default {
			option += " (default)"
		}
		options = append(options, option)
	}
	if len(options) == 0 {
		return text
	}
	return text + " " + strings.Join(options, ", ")
}

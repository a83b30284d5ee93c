package stream

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Writer writes a stream that [Claude] decodes.
type Writer struct {
	enc   *json.Encoder
	start time.Time
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &Writer{enc: enc, start: time.Now()}
}

type object map[string]any

// Text reports text or a command's output.
func (w *Writer) Text(s string) error {
	return w.assistant(object{"type": "text", "text": s})
}

// Bash reports a shell command.
func (w *Writer) Bash(command string) error {
	return w.assistant(object{"type": "tool_use", "name": "Bash", "input": object{"command": command}})
}

// Result reports the end of the run, without cost.
func (w *Writer) Result(failed bool, turns int, text string) error {
	subtype := "success"
	if failed {
		subtype = "error_during_execution"
	}
	return w.event(object{
		"type": "result", "subtype": subtype, "is_error": failed,
		"num_turns": turns, "total_cost_usd": 0, "usage": object{"input_tokens": 0, "output_tokens": 0},
		"duration_ms": time.Since(w.start).Milliseconds(), "result": text,
	})
}

func (w *Writer) assistant(content object) error {
	return w.event(object{"type": "assistant", "message": object{"role": "assistant", "content": []object{content}}})
}

func (w *Writer) event(e object) error {
	if err := w.enc.Encode(e); err != nil {
		return fmt.Errorf("writing the agent's stream: %w", err)
	}
	return nil
}

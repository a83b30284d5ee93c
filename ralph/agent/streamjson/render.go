// Package streamjson speaks the line-wise JSON by which coding agents report
// what they do: it renders such a stream for people, reads usage and cost
// from it, and writes one.
package streamjson

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds what is kept of one line, in bytes. Longer lines, which no
// agent writes, are skipped.
const maxLine = 256 << 20

// Render copies what the stream r says to w, as text, event by event, and
// returns the result event. Lines that are no JSON object are skipped. The
// error is one of reading r or writing w.
func Render(w io.Writer, r io.Reader) (Result, error) {
	var res Result
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if text := renderLine(line, &res); text != "" {
			if _, err := io.WriteString(w, text); err != nil {
				return res, fmt.Errorf("writing the agent's output: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return res, nil
		case err != nil:
			return res, fmt.Errorf("reading the agent's output: %w", err)
		}
	}
}

// readLine reads up to the next newline, whatever the length.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) <= maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// event is the part of an event that is rendered. Fields stay raw where an
// agent's version might send another type.
type event struct {
	Type         string          `json:"type"`
	Message      json.RawMessage `json:"message"`
	Subtype      json.RawMessage `json:"subtype"`
	TotalCostUSD json.RawMessage `json:"total_cost_usd"`
	NumTurns     json.RawMessage `json:"num_turns"`
}

type block struct {
	Type  string          `json:"type"`
	Text  json.RawMessage `json:"text"`
	Name  json.RawMessage `json:"name"`
	Input json.RawMessage `json:"input"`
}

// renderLine returns what is printed for one line, and notes results.
func renderLine(line []byte, res *Result) string {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return ""
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return ""
	}
	switch e.Type {
	case "assistant":
		return renderMessage(e.Message)
	case "user":
		res.noteComplaint(e.Message)
		return ""
	case "result":
		res.read(line)
		return fmt.Sprintf("\n━━ Done (%s) | cost: $%s | turns: %s ━━\n",
			scalar(e.Subtype), cost(e.TotalCostUSD), scalar(e.NumTurns))
	default:
		return ""
	}
}

func renderMessage(raw json.RawMessage) string {
	var message struct {
		Content json.RawMessage `json:"content"`
	}
	var blocks []json.RawMessage
	if json.Unmarshal(raw, &message) != nil || json.Unmarshal(message.Content, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, raw := range blocks {
		var c block
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		switch c.Type {
		case "text":
			b.WriteString(text(c.Text))
		case "tool_use":
			fmt.Fprintf(&b, "\n🔧 %s%s\n", scalar(c.Name), toolDetail(scalar(c.Name), c.Input))
		}
	}
	return b.String()
}

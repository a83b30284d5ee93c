package run

import "bytes"

// maxPartial bounds an incomplete line, in bytes.
const maxPartial = 4 << 10

// lineFilter removes what a loop erases at its terminal from its start on: the line with
// the loop's state, which is drawn every second. It holds back incomplete lines.
type lineFilter struct{ partial []byte }

func (f *lineFilter) filter(p []byte) (lines []byte) {
	f.partial = append(f.partial, p...)
	for {
		line, rest, complete := bytes.Cut(f.partial, []byte("\n"))
		if erased := bytes.LastIndex(line, eraseBelow); erased >= 0 {
			line = line[erased+len(eraseBelow):]
		}
		if !complete {
			f.partial = bytes.Clone(line)
			break
		}
		lines = append(append(lines, line...), '\n')
		f.partial = rest
	}
	if len(f.partial) > maxPartial {
		lines, f.partial = append(lines, f.partial...), nil
	}
	return lines
}

// eraseBelow is the sequence before such a line's next version.
var eraseBelow = []byte("\x1b[J")

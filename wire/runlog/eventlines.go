package runlog

import "fmt"

// EventLines returns the next events from an offset on as they are logged, in complete lines, and the offset after
// them. The first offset is 0. There are no more events for now if the offset did not change.
func (r *Reader) EventLines(offset int64) (lines []byte, next int64, err error) {
	lines, next, err = r.readEvents(offset)
	if err != nil {
		return nil, offset, fmt.Errorf("reading the events of loop %s: %w", r.Loop.ID, err)
	}
	return lines, next, nil
}

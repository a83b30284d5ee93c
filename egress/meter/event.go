package meter

import "bytes"

// dataField begins the lines with the JSON of server-sent events.
const dataField = "data:"

// eventScanner finds the data of server-sent events.
type eventScanner struct {
	matched int  // bytes of dataField at the start of the line, or -1 for another line
	content bool // the line is not empty
}

// scan passes the data in the next piece to json.
func (e *eventScanner) scan(piece []byte, json *scanner) {
	for len(piece) > 0 {
		line, rest, complete := bytes.Cut(piece, []byte("\n"))
		e.scanLine(line, json)
		if !complete {
			return
		}
		if !e.content { // end of the event
			json.reset()
		}
		e.matched, e.content = 0, false
		piece = rest
	}
}

// scanLine scans a part of a line.
func (e *eventScanner) scanLine(part []byte, json *scanner) {
	e.content = e.content || len(bytes.TrimRight(part, "\r")) > 0
	for e.matched >= 0 && e.matched < len(dataField) && len(part) > 0 {
		if part[0] != dataField[e.matched] {
			e.matched = -1
			return
		}
		e.matched++
		part = part[1:]
	}
	if e.matched == len(dataField) {
		json.scan(part)
	}
}

package task

import (
	"bufio"
	"fmt"
	"io"
	"testing"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

func BenchmarkPrintTable10000(b *testing.B) {
	var lines []backlog.Line
	for i := range 10000 {
		lines = append(lines, backlog.Line{
			Slug: fmt.Sprintf("spec/%05d", i), Title: fmt.Sprintf("Task %d, which is to do something", i),
			Category: "feat", Status: backlog.StatusOpen,
		})
	}
	for b.Loop() {
		s := &session{out: bufio.NewWriter(io.Discard)}
		s.printTable(lines)
	}
}

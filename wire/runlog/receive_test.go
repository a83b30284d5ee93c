package runlog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func received(t *testing.T, dir, loop string) *Received {
	t.Helper()
	r, err := Receive(dir, loop)
	assert.NilError(t, err)
	t.Cleanup(r.Close)
	return r
}

func TestReceivedPartsAreWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, noon)
	r := received(t, dir, l.Loop.ID)
	for _, part := range []struct {
		offset int64
		data   string
	}{{0, "one\n"}, {0, "one\n"}, {2, "e\ntwo\n"}, {8, ""}, {8, "three\n"}, {0, "one\n"}} {
		assert.NilError(t, r.Append("1.log", part.offset, []byte(part.data)))
	}
	assert.NilError(t, r.Append("2.log", 0, nil))
	b, err := os.ReadFile(filepath.Join(dir, l.Loop.ID, "1.log"))
	assert.NilError(t, err)
	assert.Equal(t, string(b), "one\ntwo\nthree\n")
	assert.DeepEqual(t, received(t, dir, l.Loop.ID).Sizes(), map[string]int64{"1.log": 14, "2.log": 0})
	assert.ErrorContains(t, r.Append("1.log", 15, []byte("x")), "offset 15 is not in or at the end of 14 bytes")
	assert.ErrorContains(t, r.Append("1.log", -1, []byte("x")), "offset -1")
	assert.ErrorContains(t, r.Append("1.log", 1<<62, []byte("x")), "offset")
}

func TestReceivedNamesAndSizesAreChecked(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, noon)
	for _, loop := range []string{"", "..", "../x", "20310203-120000", "20310203-120000-build/x", "20310203-120000.000-run.log", "20310203-120000-" + strings.Repeat("x", 100)} {
		_, err := Receive(dir, loop)
		assert.ErrorContains(t, err, "invalid name", loop)
	}
	_, err := Receive(dir, "20310203-130000-build")
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Create(dir, Loop{Mode: "../build", Started: noon})
	assert.ErrorContains(t, err, "invalid name")

	r := received(t, dir, l.Loop.ID)
	for _, file := range []string{"", "../1.log", "x/1.log", ".1.log", "1.log.new", "loop.json", "now.json", "1.LOG", strings.Repeat("1", 70) + ".log"} {
		assert.ErrorContains(t, r.Append(file, 0, []byte("x")), "invalid name", file)
	}
	for _, file := range []string{"", "1.log", "../loop.json", "x.json"} {
		assert.ErrorContains(t, r.Replace(file, []byte("{}")), "invalid name", file)
	}
	assert.ErrorContains(t, r.Replace(nowFile, make([]byte, maxState+1)), "too long")
	assert.ErrorContains(t, r.Append("1.log", 0, make([]byte, maxFile+1)), "too long")
	r.size = maxLoop
	assert.ErrorContains(t, r.Append("1.log", 0, []byte("x")), "too long")
	for _, file := range []string{eventsFile, iterationsFile} {
		assert.NilError(t, r.Append(file, 0, []byte("{}\n")))
		assert.ErrorContains(t, r.Append(file, 3, make([]byte, maxFile)), "too long")
	}
	r.size, r.count = 0, maxReceived
	assert.ErrorContains(t, r.Append("1.log", 0, []byte("x")), "too long")
}

func TestReceivedStateIsThatOfItsDispatch(t *testing.T) {
	dir := t.TempDir()
	loop := newLoop(noon)
	loop.Dispatch = "s1"
	l, err := Create(dir, loop)
	assert.NilError(t, err)
	r := received(t, dir, l.Loop.ID)
	assert.NilError(t, r.Replace(loopFile, []byte(`{"dispatch":"s1","stop":"complete"}`)))
	assert.Equal(t, find(t, dir).Loop.Stop, "complete")
	for _, content := range []string{"", "nonsense", `{"dispatch":"s2"}`} {
		assert.ErrorContains(t, r.Replace(loopFile, []byte(content)), "state of another loop")
	}
}

func TestReceivedEventsAreReportedOnce(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, noon)
	r := received(t, dir, l.Loop.ID)
	line := []byte(`{"time":"2031-02-03T12:00:00Z","type":"run.start","n":1}` + "\n")
	for range 2 {
		assert.NilError(t, r.Append(eventsFile, 0, line))
	}
	assert.NilError(t, r.Append("1.jsonl", 0, line))
	assert.Check(t, cmp.Len(r.Events, 1))
	assert.DeepEqual(t, r.Events[0].Data, &RunStart{N: 1})

	// A host was killed while it wrote the second of two events.
	at := int64(len(line))
	assert.NilError(t, r.Append(eventsFile, at, slices.Concat(line, line[:10])))
	r = received(t, dir, l.Loop.ID)
	assert.NilError(t, r.Append(eventsFile, at, slices.Concat(line, line)))
	assert.Check(t, cmp.Len(r.Events, 1))
	assert.Equal(t, r.Events[0].Next, 3*at)
	assert.Equal(t, r.Size(eventsFile), 3*at)
}

func TestLogWritesThroughItsFiles(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, noon)
	r := received(t, dir, l.Loop.ID)
	log := New(l.Loop, sender{r})
	_, _ = log.Output(0).Write([]byte("banner\n"))
	w, err := log.Stream(1)
	assert.NilError(t, err)
	_, err = w.Write([]byte("{}\n"))
	assert.NilError(t, err)
	assert.NilError(t, log.Emit(&RunStart{N: 1}))
	assert.NilError(t, log.Append(Iteration{N: 1, Outcome: "done"}))
	assert.NilError(t, log.Finish(LoopEnd{Stop: "complete"}))

	got := Recent(dir, 1, Any)[0]
	assert.Equal(t, got.Stop, "complete")
	assert.Equal(t, got.Last.Outcome, "done")
	assert.DeepEqual(t, r.Sizes()["1.jsonl"], int64(3))
	assert.Check(t, cmp.Len(r.Events, 3))
}

// Who sees that a loop has ended does not wait for more of its log.
func TestTheEndIsWrittenLast(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, noon)
	r := received(t, dir, l.Loop.ID)
	files := &ordered{Files: sender{r}}
	log := New(l.Loop, files)
	log.Output(0)
	log.Note("bye\n")
	assert.NilError(t, log.Finish(LoopEnd{Stop: "complete"}))
	assert.DeepEqual(t, files.written, []string{outputFile(0), nowFile, eventsFile, loopFile})
}

// ordered remembers the order of writes.
type ordered struct {
	Files
	written []string
}

func (o *ordered) Append(file string, p []byte) error {
	o.written = append(o.written, file)
	return o.Files.Append(file, p)
}

func (o *ordered) Replace(file string, content []byte) error {
	o.written = append(o.written, file)
	return o.Files.Replace(file, content)
}

// sender sends a log without a connection.
type sender struct{ *Received }

func (s sender) Append(file string, p []byte) error { return s.Received.Append(file, s.Size(file), p) }

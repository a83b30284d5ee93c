package taskfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// render shows a list.
func render(t *testing.T, list List) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("format: " + list.Format + "\n")
	for _, task := range list.Tasks {
		line, err := backlog.PlanLine(task)
		assert.NilError(t, err)
		b.WriteString(line + "\n")
	}
	for _, line := range list.Dropped {
		b.WriteString("dropped: " + line + "\n")
	}
	b.WriteString("ignored: " + strings.Join(list.Ignored, ", ") + "\n")
	return b.String()
}

func TestFormats(t *testing.T) {
	for _, name := range []string{
		"prd.json", "feature_list.json", "tasks.json", "issues.jsonl", "issues.json", "specs/001-photo-albums/tasks.md", "fix_plan.md", "plan.jsonl",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			data, err := os.ReadFile(path)
			assert.NilError(t, err)
			list, err := Read(strings.NewReader(string(data)), Options{Path: path, Spec: "spec"})
			assert.NilError(t, err)
			golden.Assert(t, render(t, list), filepath.Base(name)+".golden")
			// A byte order mark and the line ends of Windows change nothing.
			windows := "\ufeff" + strings.ReplaceAll(string(data), "\n", "\r\n")
			again, err := Read(strings.NewReader(windows), Options{Path: path, Spec: "spec", Format: list.Format})
			assert.NilError(t, err)
			assert.Equal(t, render(t, again), render(t, list))
		})
	}
}

// read reads a list in the format that is detected, or in the given one.
func read(text string, format ...string) (List, error) {
	return Read(strings.NewReader(text), Options{Format: strings.Join(format, "")})
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, tc := range []struct{ name, text, format, want string }{
		{"empty", " \n", "", "empty file"},
		{"prose", "# Notes\n\nNothing to do.\n", "", "not a task list in a known format"},
		{"other JSON", `{"name":"shop","version":"1.0"}`, "", "not a task list in a known format"},
		{"not UTF-8", "- [ ] \xff\xfe", "", "not UTF-8 text"},
		{"unknown format", "x", "jira", "unknown format 'jira': use ralph, prd, taskmaster, github, beads, spec-kit, markdown"},
		{"syntax", "{\"userStories\": [\n  {\"id\": 1,\n   \"title\" \"x\"}\n]}", "", `line 3: invalid JSON: invalid character '"' after object key`},
		{"cut off", "[\n{\"number\":1,\n\"title\":", "", "line 3: invalid JSON: unexpected EOF"},
		{"syntax of a later line", "{\"id\":\"a\",\"title\":\"A\",\"issue_type\":\"task\"}\n\n{\"id\":\"b\",}\n", "", "line 3: invalid JSON: invalid character '}' looking for beginning of object key string"},
		{"passes", "[\n{\"title\":\"A\",\"passes\":false},\n{\"title\":\"B\",\n\"passes\":\"yes\"}]", "", `line 4: expected true or false, found: "yes"`},
		{"story", "{\"userStories\":[\n[]]}", "", "line 2: expected an object, found: []"},
		{"title", "[{\"number\":1,\n\"title\":{}}]", "", "line 2: expected a string, found: {}"},
		{"no title", "[{\"id\":\"x\",\"passes\":false}]", "", "line 1: task 'x' has neither a title nor a description"},
		{"no number", "[{\"number\":null,\"title\":\"A\"}]", "", "line 1: issue without a number"},
		{"no ID", "{\"tasks\":[\n{\"title\":\"A\"}]}", "", "line 2: task without an ID"},
		{"subtask without ID", "{\"tasks\":[{\"id\":1,\"title\":\"A\",\"subtasks\":[\n{\"title\":\"B\"}]}]}", "", "line 2: task without an ID"},
		{"subtasks", "{\"tasks\":[{\"id\":1,\"title\":\"A\",\n\"subtasks\":3}]}", "", "line 2: expected an array, found: 3"},
		{"issue without ID", "{\"title\":\"A\"}", "beads", "line 1: issue without an ID"},
		{"dependencies of beads", "{\"id\":\"a\",\"title\":\"A\",\"issue_type\":\"task\",\"dependencies\":[[]]}", "", "line 1: expected an object, found: []"},
		{"labels", "[{\"number\":1,\"title\":\"A\",\n\"labels\":[{\"name\":[]}]}]", "", "line 2: expected a string, found: []"},
		{"plan", "{\"id\":\"a\",\"t\":\"A\"}\n{\"id\":\"b\"}", "", `line 2: field "t" is missing or empty`},
		{"wrong format", `[{"title":"A"}]`, "taskmaster", `line 1: expected an object, found: [{"title":"A"}]`},
		{"no tasks", `{"title":"A"}`, "taskmaster", "line 1: no tasks"},
		{"no stories", `{"title":"A"}`, "prd", "line 1: no user stories"},
		{"long ID", `[{"id":"` + strings.Repeat("x", maxID+1) + `","title":"A","passes":true}]`, "", "line 1: task ID '" + strings.Repeat("x", titleLength) + "…' is longer than 256 bytes"},
		{"large task", "\n[{\"id\":\"x\",\"title\":\"A\",\"passes\":true,\"description\":\"" + strings.Repeat("x", maxText) + `"}]`, "", "line 2: task 'x' is larger than 256 KiB"},
		{"many boxes", strings.Repeat("- [ ] x\n", maxTasks+1), "", "more than 10000 tasks"},
		{"many tasks", strings.Repeat(`{"id":"x","t":"X"}`+"\n", maxTasks+1), "", "more than 10000 tasks"},
		{"large file", strings.Repeat(" ", maxFile+1), "", "larger than 16 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := read(tc.text, tc.format)
			assert.Error(t, err, tc.want)
		})
	}
}

func TestDependenciesAreLimited(t *testing.T) {
	var b strings.Builder
	for i := range 400 {
		b.WriteString(`{"id":"` + strconv.Itoa(i) + `","t":"T","deps":[`)
		for j := range 300 {
			b.WriteString(strconv.Itoa(j) + ",")
		}
		b.WriteString("0]}\n")
	}
	_, err := read(b.String())
	assert.Error(t, err, "more than 100000 dependencies")
}

func TestPriorities(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "4": 4, "12": 12, "3.0": 3, "P0": 0, "p4": 4, "critical": 0, "Urgent": 0, "HIGH": 1, "medium": 2, " normal ": 2, "low": 3, "lowest": 4,
	} {
		got, ok := parsePriority(text)
		assert.Check(t, ok, text)
		assert.Check(t, is.Equal(got, want), text)
	}
	for _, text := range []string{"", "-1", "1.5", "P10", "soon", "NaN", "Inf", "1e99"} {
		_, ok := parsePriority(text)
		assert.Check(t, !ok, text)
	}
}

func TestLabels(t *testing.T) {
	for name, want := range map[string]int{
		"P1": 1, "priority: high": 1, "Priority/Low": 3, "priority:P0": 0, "high-priority": 1, "prio 3": 3, "critical": 0, "urgent": 0,
	} {
		got, ok := labelPriority(name)
		assert.Check(t, ok, name)
		assert.Check(t, is.Equal(got, want), name)
	}
	for _, name := range []string{"bug", "high", "low", "3", "p", "priority", "low hanging fruit", "px"} {
		_, ok := labelPriority(name)
		assert.Check(t, !ok, name)
	}
}

func TestHeadings(t *testing.T) {
	for heading, want := range map[string]int{
		"High priority": 1, "Priority: low": 3, "P0 - must": 0, "Priority 1": 1, "Critical": 0, "**Medium**": 2, "Phase 3 (Priority: P2)": 2, "Low:": 3,
	} {
		got, ok := priorityOf(heading)
		assert.Check(t, ok, heading)
		assert.Check(t, is.Equal(got, want), heading)
	}
	for _, heading := range []string{"High availability", "Priorities", "Step 1", "MP3 files"} {
		_, ok := priorityOf(heading)
		assert.Check(t, !ok, heading)
	}
}

func TestIDsAreClean(t *testing.T) {
	list, err := Read(strings.NewReader(`[{"id":" Story  1\u001b[2J ","title":"A\nB","passes":false,"dependsOn":["Story 2"]},{"id":2,"title":"C","passes":false}]`),
		Options{Prefix: "v2/"})
	assert.NilError(t, err)
	assert.Equal(t, list.Tasks[0].Slug, "v2/Story-1")
	assert.Equal(t, list.Tasks[0].Title, "A B")
	assert.DeepEqual(t, list.Tasks[0].Deps, []string{"v2/Story-2"})
	assert.Equal(t, list.Tasks[1].Slug, "v2/2")
}

func TestFormatIsDetected(t *testing.T) {
	for text, want := range map[string]string{
		`{"features":[{"id":"a","title":"A"}]}`:                          "prd",
		`{"tasks":[{"id":1,"title":"A","passes":false}]}`:                "prd",
		`{"tasks":[{"id":1,"title":"A","status":"pending"}]}`:            "taskmaster",
		`[{"id":"a","title":"A","acceptance_criteria":["one"]}]`:         "prd",
		`[{"id":"bd-1","title":"A","issue_type":"task"}]`:                "beads",
		`{"_type":"memory","key":"a"}` + "\n" + `{"id":"b","title":"B"}`: "beads",
		`[{"id":"a","t":"A"}]`:                                           "ralph",
		"[ ] A\n[x] B":                                                   "markdown",
		"> - [ ] A":                                                      "markdown",
		"* [x] **T001** A":                                               "spec-kit",
	} {
		list, err := read(text)
		assert.NilError(t, err, text)
		assert.Check(t, is.Equal(list.Format, want), text)
		assert.Check(t, len(list.Tasks) > 0, text)
	}
}

func TestAnEmptyListIsNoError(t *testing.T) {
	for _, text := range []string{"[]", "[ ]", "[]\n"} {
		list, err := read(text)
		assert.NilError(t, err)
		assert.Equal(t, len(list.Tasks), 0)
	}
}

func TestTheIDsOfSpecKitHaveTheirFeature(t *testing.T) {
	for path, want := range map[string]string{
		"/home/me/shop/specs/001-x/tasks.md": "001-x/T001", "/home/me/shop/specs/x/tasks.md": "x/T001", "/shop/.specify/0042-y/tasks.md": "0042-y/T001",
		"/home/me/tasks.md": "T001", "": "T001",
	} {
		list, err := Read(strings.NewReader("- [ ] T001 Start"), Options{Path: path})
		assert.NilError(t, err)
		assert.Equal(t, list.Tasks[0].Slug, want, path)
	}
}

// Whatever a file has, its tasks can be stored, and are the same when they are read again.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	assert.NilError(f, err)
	for _, name := range append(files, "testdata/specs/001-photo-albums/tasks.md") {
		data, err := os.ReadFile(name)
		assert.NilError(f, err)
		for _, format := range append(Formats(), "") {
			f.Add(string(data), format)
		}
	}
	f.Fuzz(func(t *testing.T, text, format string) {
		list, err := Read(strings.NewReader(text), Options{Format: format})
		if err != nil {
			assert.Check(t, err.Error() != "")
			return
		}
		var lines strings.Builder
		ids := map[string]bool{}
		for _, task := range list.Tasks {
			assert.Check(t, task.Slug != "" && task.Title != "" && !ids[task.Slug], "%q", task)
			ids[task.Slug] = true
			assert.Check(t, is.Equal(task.Title, termsafe.Strip(task.Title)))
			assert.Check(t, is.Equal(strings.Join(strings.Fields(task.Slug), ""), task.Slug))
			assert.Check(t, task.Priority >= 0)
			line, err := backlog.PlanLine(task)
			assert.NilError(t, err)
			lines.WriteString(line + "\n")
		}
		if len(list.Tasks) == 0 {
			return
		}
		again, err := Read(strings.NewReader(lines.String()), Options{Format: "ralph"})
		assert.NilError(t, err)
		list.Format, list.Dropped, list.Ignored = "ralph", nil, nil
		assert.Equal(t, render(t, again), render(t, list))
	})
}

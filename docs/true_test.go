package docs

import (
	"encoding/json"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestStateDirectoriesAreDocumented checks that each directory, and each file without an extension, that the code
// makes below the plugin's state directory, or in the folder of a scope, is in the list of files.
func TestStateDirectoriesAreDocumented(t *testing.T) {
	files, found := read(t, "internals/files.md"), 0
	for _, file := range sources(t) {
		for _, m := range regexp.MustCompile(`\.Join\((?:\w+\.)*[sS]tateDir, "([a-z-]+)"`).FindAllStringSubmatch(read(t, file), -1) {
			found++
			assert.Check(t, strings.Contains(files, "| `"+m[1]+"/") || strings.Contains(files, "| `"+m[1]+"`"), "internals/files.md lacks %s of %s", m[1], file)
		}
		for _, m := range regexp.MustCompile(`scopes\.Path\([^,]+, [^,]+, "([a-z.-]+)"`).FindAllStringSubmatch(read(t, file), -1) {
			found++
			assert.Check(t, strings.Contains(files, "| `scopes/NAME/"+m[1]), "internals/files.md lacks scopes/NAME/%s of %s", m[1], file)
		}
	}
	assert.Assert(t, found > 10, "only %d directories", found)
}

// TestMakeTargetsExist checks that the Makefile has each target that the docs and
// the hosted CI name.
func TestMakeTargetsExist(t *testing.T) {
	makefile, checked := read(t, "../Makefile"), 0
	for _, file := range append(pages(t), "../.github/workflows/ci.yml", "../.ci/run") {
		if file == "../CHANGELOG.md" {
			continue // about the past
		}
		for _, m := range regexp.MustCompile("(?m)(?:^\\$ |`|- run: |^step .* )make ([a-z -]+)").FindAllStringSubmatch(read(t, file), -1) {
			for target := range strings.FieldsSeq(m[1]) {
				checked++
				assert.Check(t, strings.Contains(makefile, "\n"+target+":"), "%s names the target %s", file, target)
			}
		}
	}
	assert.Assert(t, checked > 20, "only %d targets", checked)
}

// TestHostedCIRunsTheSame checks that the hosted CI has each make target of .ci/run.
func TestHostedCIRunsTheSame(t *testing.T) {
	hosted := read(t, "../.github/workflows/ci.yml")
	targets := regexp.MustCompile(`(?m)^step make (.*)$`).FindAllStringSubmatch(read(t, "../.ci/run"), -1)
	assert.Assert(t, len(targets) >= 4, targets)
	for _, m := range targets {
		assert.Check(t, strings.Contains(hosted, "- run: make "+m[1]+"\n"), "make %s", m[1])
	}
}

// TestActionsArePinned checks that workflows name actions of others by commit: a tag can be moved.
func TestActionsArePinned(t *testing.T) {
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	assert.NilError(t, err)
	checked := 0
	for _, file := range workflows {
		for _, m := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(read(t, file), -1) {
			checked++
			assert.Check(t, regexp.MustCompile(`^(\./.*|[^@]+@[0-9a-f]{40} # v[0-9.]+)$`).MatchString(m[1]), "%s uses %s", file, m[1])
		}
	}
	assert.Assert(t, checked > 10, "only %d actions", checked)
}

// TestDependenciesAreDocumented checks that each direct dependency is listed.
func TestDependenciesAreDocumented(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json").Output()
	assert.NilError(t, err)
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	assert.NilError(t, json.Unmarshal(out, &mod))
	page := read(t, "internals/dependencies.md")
	for _, m := range mod.Require {
		listed := strings.Contains(page, "`"+m.Path+"`") || strings.Contains(page, "`…/"+m.Path[strings.LastIndex(m.Path, "/")+1:]+"`")
		assert.Check(t, m.Indirect || listed, "internals/dependencies.md lacks %s", m.Path)
	}
}

// sources returns the product's Go files.
func sources(t *testing.T) []string {
	t.Helper()
	var all []string
	assert.NilError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") && !entry.IsDir() {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// TestMergesAreComplete checks that no conflict is left in what users read.
func TestMergesAreComplete(t *testing.T) {
	help, err := filepath.Glob("../wire/help/*.txt")
	assert.NilError(t, err)
	assert.Assert(t, len(help) > 0)
	for _, file := range append(pages(t), help...) {
		assert.Check(t, !regexp.MustCompile("(?m)^(<{7}|>{7}) ").MatchString(read(t, file)), file)
	}
}

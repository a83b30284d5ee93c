package secretscan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// key is concatenated, so that this file has no finding.
var key = "AKIA" + "QYLPMN5HHHFPZAM2"

func scanner(t *testing.T, e engines.Engine) Scanner {
	t.Helper()
	return Scanner{
		API: e.Client(t), User: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		Pull: func(context.Context, string) error { return errors.New("no registry here") },
	}
}

// Settings of the repository for the scanner are ignored.
func TestRepositoryCannotDisableFindings(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		tree := fs.NewDir(t, "tree",
			fs.WithFile("a.py", "# the key\nkey = \""+key+"\" # gitleaks:allow\n"),
			fs.WithFile("b.txt", "nothing\n"),
			fs.WithDir("deep; touch x", fs.WithFile("$(id).env", "AWS_KEY="+key+"\n")),
			fs.WithFile(".gitleaks.toml", "[allowlist]\npaths = [\".*\"]\n"),
			fs.WithFile(".gitleaksignore", "/scan/tree/a.py:aws-access-token:2\na.py:aws-access-token:2\n"),
		)
		findings, err := scanner(t, e).Tree(t.Context(), tree.Path())
		assert.NilError(t, err)
		assert.DeepEqual(t, findings, []Finding{
			{File: "a.py", Line: 2, Rule: "aws-access-token"},
			{File: "deep; touch x/$(id).env", Line: 1, Rule: "aws-access-token"},
		})
	})
}

func TestEngineFindsNothing(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		tree := fs.NewDir(t, "tree", fs.WithFile("b.txt", "nothing\n"))
		findings, err := scanner(t, e).Tree(t.Context(), tree.Path())
		assert.NilError(t, err)
		assert.Equal(t, len(findings), 0)
	})
}

func TestUnreadableFileIsAnError(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		_, err := scanner(t, e).Tree(t.Context(), "/no/such/folder")
		assert.ErrorContains(t, err, "scanning /no/such/folder for secrets")
	})
}

// missing is an engine without the image.
type missing struct{ API }

type notFound struct{ error }

func (notFound) NotFound() {}

func (missing) ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	return client.ImageInspectResult{}, notFound{errors.New("no such image")}
}

func TestNoScanner(t *testing.T) {
	s := Scanner{API: missing{}, Pull: func(_ context.Context, image string) error {
		assert.Equal(t, image, Image)
		return errors.New("no route")
	}}
	_, err := s.Tree(t.Context(), "/src")
	_, ok := errors.AsType[*MissingError](err)
	assert.Assert(t, ok, "%v", err)
	assert.ErrorContains(t, err, "no route")
}

func TestParseReport(t *testing.T) {
	findings, err := parseReport([]byte(`[{"RuleID":"b","File":"/scan/tree/x","StartLine":3},{"RuleID":"a","File":"/scan/tree/x","StartLine":3},{"RuleID":"c","File":"/scan/tr`))
	assert.NilError(t, err)
	assert.DeepEqual(t, findings, []Finding{{"x", 3, "a"}, {"x", 3, "b"}})
	for _, none := range []string{"", "[]"} {
		findings, err := parseReport([]byte(none))
		assert.NilError(t, err)
		assert.Equal(t, len(findings), 0)
	}
	for _, bad := range []string{"{}", "null", "nonsense", `[3]`, `[{"RuleID":`} {
		_, err := parseReport([]byte(bad))
		assert.Check(t, is.ErrorContains(err, "parsing the report of gitleaks"), bad)
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte(`[{"RuleID":"b","File":"/scan/tree/x","StartLine":3}]`))
	f.Fuzz(func(t *testing.T, report []byte) {
		findings, err := parseReport(report)
		assert.Assert(t, err == nil || len(findings) == 0)
	})
}

// Tests and users have the same version.
func TestVersionMatchesTheScripts(t *testing.T) {
	versions, err := os.ReadFile("../../scripts/versions")
	assert.NilError(t, err)
	_, version, _ := strings.Cut(Image, ":")
	assert.Check(t, is.Contains(string(versions), "GITLEAKS_VERSION="+version+"\n"))
}

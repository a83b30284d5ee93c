package gitrepo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Packages on the host start git through [Git] only. Those below ralph run in a sandbox.
func TestGitIsOnlyStartedByTheRunner(t *testing.T) {
	const module = ".."
	seen := 0
	err := filepath.WalkDir(module, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if slices.Contains([]string{"ralph", "e2e", "internal/testutil", "scripts"}, filepath.ToSlash(rel)) || rel != "." && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		seen++
		inRunner := filepath.ToSlash(rel) == "gitrepo/harden.go"
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && startsGit(call) && !inRunner {
				t.Errorf("%s starts git without gitrepo.Git", set.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	assert.NilError(t, err)
	assert.Assert(t, seen > 100, "only %d files", seen)
}

// startsGit reports whether a call makes a process of the program "git", or of one in a field
// named Program.
func startsGit(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	at, ok := map[string]int{"Command": 0, "CommandContext": 1, "StartProcess": 0}[sel.Sel.Name]
	if pkg, is := sel.X.(*ast.Ident); !ok || !is || pkg.Name != "exec" && pkg.Name != "os" || len(call.Args) <= at {
		return false
	}
	switch program := call.Args[at].(type) {
	case *ast.BasicLit:
		return strings.Trim(program.Value, "\"`") == "git"
	case *ast.SelectorExpr:
		return program.Sel.Name == "Program"
	}
	return false
}

package plugin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// byHand matches commands of docker that bypass docker-ralph: they could lose commits,
// or the sandbox of another branch.
var byHand = regexp.MustCompile(`docker (rm|stop|unpause|volume rm)\b`)

// No message advises a docker command where docker-ralph has one.
func TestMessagesAdviseOurOwnCommands(t *testing.T) {
	looked := 0
	for _, dir := range []string{"../lifecycle", "../plugin", "../projectimage", "../ralph", "../config"} {
		assert.NilError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			looked++
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Stop" || key.Name == "Remove") {
						return false // lifecycle.Manual, which the next case keeps out of messages
					}
				case *ast.BasicLit:
					assert.Check(t, n.Kind != token.STRING || !byHand.MatchString(n.Value), "%s: %s", set.Position(n.Pos()), n.Value)
				case *ast.SelectorExpr:
					call, ok := n.X.(*ast.CallExpr)
					if !ok || n.Sel.Name != "Stop" && n.Sel.Name != "Remove" {
						return true
					}
					fun, ok := call.Fun.(*ast.SelectorExpr)
					assert.Check(t, !ok || fun.Sel.Name != "Manual", "%s: the driver's own command", set.Position(n.Pos()))
				}
				return true
			})
			return nil
		}))
	}
	assert.Assert(t, looked > 200)
}

// Command typecheck checks the types of packages and of all that they import for the system that GOOS
// names, from their sources. "go vet" finds the same errors, but compiles every dependency first, which
// takes minutes for each system.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// check prints what is wrong with the packages that patterns name. The bodies of functions are checked in these
// packages only, not in what they import.
func check(patterns []string) error {
	mode := packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedFiles |
		packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesSizes
	loaded, err := packages.Load(&packages.Config{Mode: mode}, patterns...)
	if err != nil {
		return err
	}

	if n := packages.PrintErrors(loaded); n > 0 {
		return fmt.Errorf("type errors for GOOS=%s: %d", os.Getenv("GOOS"), n)
	}
	return nil
}

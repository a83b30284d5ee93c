package listing

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

func FuzzListing(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte(id + " refs/heads/main\n" + id + " HEAD refs/heads/main\n\n# v2 git bundle\n-" + id + " x\n" + id + " refs/heads/main\n\nPACK"))
	f.Add([]byte("- HEAD \n\n"))
	f.Add([]byte(id + " HEAD \n\n# v3 git bundle\n@object-format=sha256\n\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		l, err := Read(bufio.NewReader(bytes.NewReader(answer)))
		if err != nil {
			return
		}
		given := refname.Locals(l.Refs, "main", nil)
		seen := map[string]bool{}
		for ref, oid := range l.Refs {
			name := given[ref]
			if !hostgit.IsObjectID(oid) || name == "" || seen[strings.ToLower(name)] {
				t.Fatalf("%q %q at %q", ref, oid, name)
			}
			seen[strings.ToLower(name)] = true
			for _, r := range name {
				if r <= ' ' || r >= 0x7f || strings.ContainsRune("$;:?*[\\^~'\"`", r) {
					t.Fatalf("%q at %q", ref, name)
				}
			}
		}
	})
}

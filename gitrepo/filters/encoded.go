package filters

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// The filters whose encoded content is recognized.
const (
	lfs   = "lfs"
	crypt = "git-crypt"
)

// Known reports whether the encoded content of a filter is recognized. git-crypt has a filter
// for each of its keys.
func Known(filter string) bool {
	return filter == lfs || filter == crypt || strings.HasPrefix(filter, crypt+"-")
}

// maxPointer is the size of the largest pointer of Git LFS; see its docs/spec.md.
const maxPointer = 1024

var pointer = lazyregexp.New(`^version https://git-lfs\.github\.com/spec/v1\n(ext-[0-9]-\S+ sha256:[0-9a-f]{64}\n)*oid sha256:[0-9a-f]{64}\nsize [0-9]+\n?$`)

// encoded reports whether a known filter has encoded the content that begins with head. All of
// them leave empty files as they are.
func encoded(filter string, head []byte, size int64) bool {
	if filter == lfs {
		return size == 0 || size < maxPointer && pointer().Match(head)
	}
	return size == 0 || bytes.HasPrefix(head, []byte("\x00GITCRYPT\x00"))
}

// withoutEncoded removes what is encoded.
func withoutEncoded(ctx context.Context, g gitrepo.Git, all []Raw) ([]Raw, error) {
	byID := map[string][]Raw{}
	var raw []Raw
	for _, r := range all {
		if Known(r.Filter) {
			byID[r.ID] = append(byID[r.ID], r)
		} else {
			raw = append(raw, r)
		}
	}
	err := eachBlob(ctx, g, slices.Sorted(maps.Keys(byID)), func(id string, head []byte, size int64) {
		for _, r := range byID[id] {
			if !encoded(r.Filter, head, size) {
				raw = append(raw, r)
			}
		}
	})
	slices.SortFunc(raw, func(a, b Raw) int { return strings.Compare(a.Path, b.Path) })
	return raw, err
}

// eachBlob calls f with the size of blobs and up to [maxPointer] bytes of their content.
func eachBlob(ctx context.Context, g gitrepo.Git, ids []string, f func(id string, head []byte, size int64)) (err error) {
	if len(ids) == 0 {
		return nil
	}
	pr, pw := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = pw.CloseWithError(g.Stream(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), pw, "cat-file", "--batch"))
	}()
	defer func() {
		_ = pr.Close()
		<-ended
		if err != nil {
			err = fmt.Errorf("reading the content of commits: %w", err)
		}
	}()
	in := bufio.NewReader(pr)
	for _, id := range ids {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		var size int64
		if _, err := fmt.Sscanf(line, id+" blob %d\n", &size); err != nil {
			return fmt.Errorf("unexpected line %q", line)
		}
		head := make([]byte, min(size, maxPointer))
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, size-int64(len(head))+1); err != nil {
			return err
		}
		f(id, head, size)
	}
	return nil
}

package hostgit

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// PackSize estimates the size of a pack of revisions, as for "git rev-list --stdin". Git before 2.31
// cannot.
func (g Git) PackSize(ctx context.Context, revs string) (size int64, err error) {
	out, err := g.Output(ctx, strings.NewReader(revs), "rev-list", "--objects", "--disk-usage", "--stdin")
	if err == nil {
		_, err = fmt.Sscan(string(out), &size)
	}
	return size, err
}

// partDeltas keeps git from searching for deltas of large files, which takes longer than sending them over
// a fast network, and delays each part.
const partDeltas = "core.bigFileThreshold=8m"

// Pack writes a thin pack of revisions: all that is new, or part of a large transfer.
func (g Git) Pack(ctx context.Context, revs string, to io.Writer, part bool) error {
	args := []string{"pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"}
	if part {
		args = append([]string{"-c", partDeltas}, args...)
	}
	return g.Stream(ctx, strings.NewReader(revs), to, args...)
}

// Parts splits revisions into packs of about a size: it returns the commits that each pack but the
// last one ends with. Each has what the next ones are based on.
func (g Git) Parts(ctx context.Context, revs string, size int64) ([][]string, error) {
	if revs == "" {
		return nil, nil
	}
	total, err := g.PackSize(ctx, revs)
	number := int((total + size/2) / size)
	if err != nil || number <= 1 {
		return nil, nil //nolint:nilerr // one pack, without an estimate
	}
	out, err := g.Output(ctx, strings.NewReader(revs), "rev-list", "--reverse", "--topo-order", "--parents", "--stdin")
	if err != nil {
		return nil, fmt.Errorf("listing commits to send: %w", err)
	}
	var parts [][]string
	ends := map[string]bool{}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	length := (len(lines) + number - 1) / number
	for i, line := range lines[:len(lines)-1] {
		commit, parents, _ := strings.Cut(line, " ")
		for parent := range strings.FieldsSeq(parents) {
			delete(ends, parent)
		}
		ends[commit] = true
		if (i+1)%length == 0 {
			parts = append(parts, slices.Sorted(maps.Keys(ends)))
		}
	}
	return parts, nil
}

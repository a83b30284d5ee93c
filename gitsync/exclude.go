package gitsync

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/gitpath"
)

// excludeScript sets skip-worktree in the sandbox's index, and writes info/exclude. Each
// line of its input is what to do, and a path as git quotes it. update-index fails for
// files that are not in the index.
const excludeScript = plainGit + `d=$(git rev-parse --git-dir) && mkdir -p "$d/info" && t=$d/ralph-exclude && cat > "$t" || exit
sed -n 's/^exclude //p' "$t" > "$d/info/exclude" && git -c core.quotePath=true ls-files > "$t.all" || exit
for flag in no-skip-worktree skip-worktree; do
	sed -n "s/^$flag //p" "$t" > "$t.some"
	if [ -s "$t.some" ]; then grep -Fx -f "$t.some" "$t.all" | git update-index --$flag --stdin || exit; fi
done
rm -f "$t" "$t.all" "$t.some"
`

// exclude excludes files from the sandbox's commits: tracked ones by skip-worktree, others
// by info/exclude.
func (r *Repo) exclude(ctx context.Context, st *state, sh Shell, paths []string, tracked map[string]bool) error {
	config, err := r.git.Config(ctx)
	if err != nil {
		return err
	}
	ignored, err := r.excludes(config)
	if err != nil {
		return err
	}
	var input strings.Builder
	for line := range strings.Lines(string(ignored)) {
		_, _ = fmt.Fprintf(&input, "exclude %s\n", strings.TrimSuffix(line, "\n"))
	}
	var skip []string
	for _, path := range paths {
		if tracked[path] {
			skip = append(skip, gitpath.Quote(path))
		} else {
			_, _ = fmt.Fprintf(&input, "exclude %s\n", gitpath.Ignore(path))
		}
	}
	for _, path := range st.SkipWorktree {
		_, _ = fmt.Fprintf(&input, "no-skip-worktree %s\n", path)
	}
	for _, path := range skip {
		_, _ = fmt.Fprintf(&input, "skip-worktree %s\n", path)
	}
	if err := sh(ctx, excludeScript, nil, strings.NewReader(input.String()), io.Discard); err != nil {
		return fmt.Errorf("excluding uncommitted changes from the commits of sandbox %s: %w", r.name, err)
	}
	st.SkipWorktree = skip
	return r.save(*st)
}

package commits

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// Watched are the files of a worktree that an agent can write, and that decide what runs on the
// host: hooks, and ralph.toml or docker-ralph.toml. Their hashes outlive a command, because a process that it has left
// in the sandbox can change them later.
type Watched struct {
	host   host.Host
	wt     gitrepo.Worktree
	name   string // of the sandbox
	direct bool   // the agent can write into the user's git directory
}

// Watch returns the watched files of a sandbox, and reports changes since its last command.
func Watch(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, direct bool) Watched {
	w := Watched{host: h, wt: wt, name: name, direct: direct}
	w.report(ctx, " since the last command", true)
	return w
}

// Report reports changes by a command, after the last fetch, which can bring them. Those that the user
// does not see are reported by the next command, too.
func (w Watched) Report(ctx context.Context, seen bool) {
	w.report(context.WithoutCancel(ctx), "", seen)
}

// report reports changes, once if they are seen.
func (w Watched) report(ctx context.Context, since string, seen bool) {
	now, err := w.hashes(ctx)
	if err != nil {
		w.host.Warn(err)
		return
	}
	was, known := w.read()
	if known && maps.Equal(was, now) {
		return
	}
	if seen {
		if err := w.save(now); err != nil {
			w.host.Warn(err)
		}
	}
	if !known || was[workspace] != now[workspace] {
		w.noteCommitHooks(ctx)
	}
	if !known {
		return
	}
	settings, hooks := w.changed(was, now)
	if len(hooks) > 0 {
		w.host.Report(fmt.Sprintf("Warning: hooks in the worktree have changed%s: %s", since, host.Some(hooks)))
		w.host.Report("Hint: check them before you use git here: even git status can run hooks")
	}
	for _, path := range settings {
		kind := "Warning"
		if since != "" { // probably by the user
			kind = "Note"
		}
		w.host.Report(fmt.Sprintf("%s: %s has changed%s", kind, filepath.Base(path), since))
	}
}

// noteCommitHooks says that the user's commit hooks do not run for an agent's commits.
func (w Watched) noteCommitHooks(ctx context.Context) {
	if w.direct {
		return // git in the sandbox finds them
	}
	g, err := hostgit.New(w.wt)
	if err != nil {
		return // reported with the hashes
	}
	if names, err := g.CommitHooks(ctx); err == nil && len(names) > 0 {
		w.host.Report("Note: your commit hooks do not run in the sandbox: " + strings.Join(names, ", "))
		w.host.Report("Hint: list what they check under [checks] in ralph.toml")
	}
}

// workspace is in the hashes, too: it decides which files are.
const workspace = ""

// changed returns the files that are new, removed, or that differ, by now. Which hooks of the git directory are
// watched is no change.
func (w Watched) changed(was, now map[string]string) (settings, hooks []string) {
	for _, path := range slices.Sorted(maps.Keys(merged(was, now))) {
		before, known := was[path]
		after, there := now[path]
		other := was[workspace] != now[workspace] && known != there && filepath.Dir(path) == filepath.Join(w.wt.CommonDir, "hooks")
		if known == there && before == after || path == workspace || other {
			continue
		}
		if slices.Contains(config.RepositoryFiles(w.wt.Root), path) {
			settings = append(settings, path)
		} else {
			hooks = append(hooks, path)
		}
	}
	return settings, hooks
}

// hashes returns the hashes of the files by path; settings are always there, because the removal
// of a file changes them, too.
func (w Watched) hashes(ctx context.Context) (map[string]string, error) {
	g, err := hostgit.New(w.wt)
	if err != nil {
		return nil, err
	}
	if w.direct { // the agent can have changed the path of hooks
		if g, err = g.Reload(ctx); err != nil {
			return nil, err
		}
	}
	all, err := g.Hooks(ctx)
	if err == nil && w.direct {
		var own map[string]string
		own, err = hostgit.HashFiles(filepath.Join(w.wt.CommonDir, "hooks"))
		all = merged(all, own)
	}
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	if w.direct {
		settings[workspace] = config.WorkspaceLive
	}
	for _, path := range config.RepositoryFiles(w.wt.Root) {
		settings[path] = hostgit.HashFile(path)
	}
	return merged(all, settings), nil
}

func merged(a, b map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// watched are the hashes of files by path.
var watched = scopes.Section[map[string]string]("watched")

// read returns the hashes of the last command; damaged ones count as missing.
func (w Watched) read() (hashes map[string]string, known bool) {
	saved, known, _ := watched.Read(w.host.StateDir, w.name)
	hashes = map[string]string{}
	for path, hash := range saved {
		if path != workspace && !filepath.IsAbs(path) {
			path = filepath.Join(w.wt.Root, path)
		}
		hashes[path] = hash
	}
	return hashes, known
}

// save saves the hashes by path in the worktree, which can be moved.
func (w Watched) save(hashes map[string]string) error {
	saved := map[string]string{}
	for path, hash := range hashes {
		if within, err := filepath.Rel(w.wt.Root, path); err == nil && filepath.IsLocal(within) {
			path = within
		}
		saved[path] = hash
	}
	if err := watched.Write(w.host.StateDir, w.name, saved); err != nil {
		return fmt.Errorf("recording hooks and settings: %w", err)
	}
	return nil
}

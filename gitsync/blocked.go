package gitsync

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// blockedScript ends the scripts whose git waits in the current directory for a writer of a named pipe, as an
// agent can create one where git opens a file, and prints such a pipe.
const blockedScript = `blocked= here=$(pwd -P)
for d in /proc/[0-9]*; do
	[ "$(cat "$d/wchan" 2>/dev/null)" = wait_for_partner ] && [ "$(cat "$d/comm")" = git ] && [ "$(readlink "$d/cwd")" = "$here" ] || continue
	read -r pid comm state parent rest < "$d/stat" || continue
	case $(cat "/proc/$parent/comm") in sh|dash|bash|busybox|git) blocked="$blocked $parent" ;; esac
	blocked="$blocked $pid"
done 2>/dev/null
[ -n "$blocked" ] || exit 0
pipe=$(find . -name .git -prune -o '(' -name .gitattributes -o -name .gitignore -o -name .gitmodules ')' -type p -print | head -n 1)
printf '%s\n' "${pipe:-.git}"
kill $blocked 2>/dev/null
exit 0
`

// blockedInterval is how often a script is checked for a blocked git.
const blockedInterval = 2 * time.Second

// BlockedError says that a named pipe in a clone blocks git there.
type BlockedError struct{ Sandbox, Path string }

func (e *BlockedError) Error() string {
	return fmt.Sprintf("git in sandbox %s is blocked by the named pipe %q", e.Sandbox, e.Path)
}

// unblocked returns a shell for scripts that make git read the files of a clone: their error is a
// [*BlockedError] if a named pipe blocks git.
func (r *Repo) unblocked(sh Shell) Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		ended := make(chan struct{})
		found := make(chan string, 1)
		go func() { found <- awaitBlocked(ctx, sh, ended) }()

		err := sh(ctx, script, args, stdin, stdout)
		close(ended)
		if path := <-found; path != "" {
			err = hint.Wrap(&BlockedError{Sandbox: r.name, Path: path}, "remove it with %q", "docker ralph shell -- rm "+termsafe.Word(path))
		}
		return err
	}
}

// awaitBlocked ends a blocked script, and returns the named pipe once it has ended; "" if it ends by itself.
func awaitBlocked(ctx context.Context, sh Shell, ended <-chan struct{}) string {
	tick := time.NewTicker(blockedInterval)
	defer tick.Stop()
	path := ""
	for {
		select {
		case <-ended:
			return path
		case <-ctx.Done():
			return path
		case <-tick.C:
		}
		var out limited
		if err := sh(ctx, blockedScript, nil, nil, &out); err == nil { // else it is tried again
			path = cmp.Or(path, strings.TrimPrefix(strings.TrimSpace(out.String()), "./"))
		}
	}
}

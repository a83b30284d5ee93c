package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// GitToken is a token for a git host.
type GitToken struct{ user, secret string }

// GitTokens finds tokens on this machine.
type GitTokens struct {
	LookupEnv func(string) (string, bool)
	// Dir is where git runs, outside of repositories: an agent may have written their
	// configuration.
	Dir string
	// Git is the program; "" for the one in PATH.
	Git string

	limit time.Duration // timeout of git; 0 for the default
}

// ErrNoGitToken means that there is no token.
var ErrNoGitToken = errors.New("none in git or the environment")

// gitLimit bounds one call of git, whose helpers may prompt.
const gitLimit = 20 * time.Second

// gitVariables are the variables with tokens for a host, and their user.
func gitVariables(host string) (user string, names []string) {
	switch host {
	case "github.com":
		return "x-access-token", []string{"GH_TOKEN", "GITHUB_TOKEN"}
	case "gitlab.com":
		return "oauth2", []string{"GITLAB_TOKEN"}
	}
	return "", nil
}

// Token returns the token for a repository: that of the host's variable, or else of git's
// credential helpers, which do not prompt.
func (g GitTokens) Token(ctx context.Context, r GitRemote) (GitToken, error) {
	user, names := gitVariables(r.Host)
	for _, name := range names {
		if value, _ := g.LookupEnv(name); strings.TrimSpace(value) != "" {
			return GitToken{user, strings.TrimSpace(value)}, nil
		}
	}
	return g.stored(ctx, r)
}

func (g GitTokens) stored(ctx context.Context, r GitRemote) (GitToken, error) {
	program := g.Git
	if program == "" {
		var err error
		if program, err = exec.LookPath("git"); err != nil {
			return GitToken{}, fmt.Errorf("finding git: %w", err)
		}
	}
	limit := g.limit
	if limit == 0 {
		limit = gitLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	git := gitrepo.Git{
		Program: program, Dir: g.Dir, Config: []string{"core.askPass=", "credential.interactive=false"},
		Environ: append(gitrepo.Environ(os.Environ()), "GIT_ASKPASS=", "SSH_ASKPASS=", "GCM_INTERACTIVE=never"),
	}
	var out bytes.Buffer
	err := git.Stream(ctx, strings.NewReader(fmt.Sprintf("protocol=https\nhost=%s\npath=%s.git\n\n", r.Host, r.Path[1:])), &out, "credential", "fill")
	switch {
	case ctx.Err() != nil:
		return GitToken{}, fmt.Errorf("\"git credential fill\" did not answer within %s: it may wait for input", limit)
	case err != nil: // git would have to prompt
		return GitToken{}, ErrNoGitToken
	}
	return parseGitToken(out.String(), time.Now())
}

// parseGitToken parses the output of "git credential fill".
func parseGitToken(text string, now time.Time) (GitToken, error) {
	var t GitToken
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch name {
		case "username":
			t.user = value
		case "password":
			t.secret = value
		case "password_expiry_utc":
			if ends, err := strconv.ParseInt(value, 10, 64); err == nil && now.Unix() >= ends {
				return GitToken{}, errors.New("stored token has expired")
			}
		}
	}
	if t.secret == "" {
		return GitToken{}, ErrNoGitToken
	}
	if strings.ContainsFunc(t.user+t.secret, unicode.IsControl) || strings.Contains(t.user, ":") {
		return GitToken{}, errors.New("stored token contains invalid characters")
	}
	return t, nil
}

package credential

import (
	"encoding/base64"
	"net"
	"net/url"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// GitRemote is a repository on a git host.
type GitRemote struct {
	// Host is in lower case, with its port unless that is 443.
	Host string
	// Path begins with a slash and does not end with ".git".
	Path string

	bare bool // the URL was without ".git"
}

var (
	gitPath = lazyregexp.New(`^(/[A-Za-z0-9_.~+-]+)+$`)
	gitSSH  = lazyregexp.New(`^(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9][A-Za-z0-9.-]+):([^:@?#\s/][^:@?#\s]*)$`)
)

// ParseGitRemote parses the URL of a remote: https, or ssh, whose host is expected to serve
// the same repository over https.
func ParseGitRemote(raw string) (GitRemote, bool) {
	if m := gitSSH().FindStringSubmatch(raw); m != nil && !strings.Contains(raw, "://") {
		raw = "ssh://" + m[1] + "/" + m[2]
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "ssh" || u.RawQuery != "" || u.Fragment != "" || u.RawPath != "" {
		return GitRemote{}, false
	}
	host, err := egress.Normalise(u.Hostname())
	if err != nil {
		return GitRemote{}, false
	}
	if port := u.Port(); u.Scheme == "https" && port != "" && port != "443" {
		host = net.JoinHostPort(host, port)
	}
	path, dotGit := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), ".git")
	if !gitPath().MatchString(path) {
		return GitRemote{}, false
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "." || part == ".." {
			return GitRemote{}, false
		}
	}
	return GitRemote{Host: host, Path: path, bare: !dotGit}, true
}

// gitPrefix is the path of the route to a repository.
const gitPrefix = "/git"

// Route returns a route that adds a token to requests for this repository only: to fetch and,
// with push, to push.
func (r GitRemote) Route(token GitToken, push bool) egress.Route {
	endpoints := []string{"/info/refs", "/git-upload-pack"}
	if push {
		endpoints = append(endpoints, "/git-receive-pack")
	}
	var paths []string
	for _, repository := range []string{r.Path, r.Path + ".git"} {
		for _, endpoint := range endpoints {
			paths = append(paths, repository+endpoint)
		}
	}
	basic := base64.StdEncoding.EncodeToString([]byte(token.user + ":" + token.secret))
	return egress.Route{
		Prefix: gitPrefix, Target: "https://" + r.Host, Paths: paths, GitReadOnly: !push, GitPush: push,
		Headers: map[string]egress.Secret{"Authorization": egress.Secret("Basic " + basic)},
	}
}

// Settings returns git settings, without secrets, that replace all URLs of the repository by
// the route below the URL base.
func (r GitRemote) Settings(base string) [][2]string {
	name, _, _ := strings.Cut(r.Host, ":")
	endings := []string{".git"}
	if r.bare { // this one also is the beginning of other repositories' names
		endings = append(endings, "")
	}
	var settings [][2]string
	for _, ending := range endings {
		key := "url." + base + gitPrefix + r.Path + ending + ".insteadOf"
		for _, address := range []string{"https://" + r.Host + r.Path, "git@" + name + ":" + r.Path[1:], "ssh://git@" + name + r.Path} {
			settings = append(settings, [2]string{key, address + ending})
		}
	}
	return settings
}

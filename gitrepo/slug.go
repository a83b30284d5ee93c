package gitrepo

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Slug returns the slug of a repository from a remote's URL, which names sandboxes and
// backlogs: the path below the host without surrounding slashes and ".git", "owner/repo" on
// most hosts, and the whole path of a local repository. Neither it nor the error contains
// user names, passwords, ports and queries.
func Slug(url string) (string, error) {
	url = strings.TrimSpace(url)
	if url == "" {
		return "", errors.New("empty URL")
	}
	if !utf8.ValidString(url) || strings.ContainsFunc(url, unicode.IsControl) {
		return "", errors.New("control characters or invalid UTF-8")
	}
	path, err := remotePath(url)
	if err != nil {
		return "", err
	}
	path = strings.TrimRight(path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, ".git"), "/")
	if path == "" {
		return "", errors.New("no path")
	}
	if credentials().MatchString(path) {
		return "", errors.New("password in the path")
	}
	return path, nil
}

var (
	schemeURL   = lazyregexp.New(`^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$`)
	helperURL   = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9+.-]*)::(.*)$`)
	windowsPath = lazyregexp.New(`^([A-Za-z]:[\\/]|\\\\)`)
	portSuffix  = lazyregexp.New(`:[0-9]*$`)
	schemeName  = lazyregexp.New(`^(?i:https?|ssh|git|ftps?|file)$`)
	// credentials in a path mean a mistyped URL.
	credentials = lazyregexp.New(`:[^/]*@|@[^/]*:`)
)

// remotePath returns the path of a remote URL. The order of the cases is git's.
func remotePath(url string) (string, error) {
	if m := schemeURL().FindStringSubmatch(url); m != nil {
		if strings.EqualFold(m[1], "file") {
			return filePath(m[2]), nil
		}
		return networkPath(m[1], m[2])
	}
	if m := helperURL().FindStringSubmatch(url); m != nil {
		if m[1] == "ext" || m[1] == "fd" {
			return "", errors.New("a command, not a URL")
		}
		return remotePath(m[2])
	}
	if windowsPath().MatchString(url) {
		return strings.ReplaceAll(url, `\`, "/"), nil
	}
	return scpPath(url)
}

// filePath returns the path of a file:// URL. The slash before a drive letter is dropped.
func filePath(rest string) string {
	if trimmed := strings.TrimPrefix(rest, "/"); windowsPath().MatchString(trimmed) {
		return strings.ReplaceAll(trimmed, `\`, "/")
	}
	return rest
}

// networkPath returns the path of scheme://[user@]host[:port]/path.
func networkPath(scheme, rest string) (string, error) {
	rest, _, _ = strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	host := authority[strings.LastIndex(authority, "@")+1:]
	bare := portSuffix().ReplaceAllString(host, "")
	if strings.Contains(bare, ":") && !strings.HasPrefix(bare, "[") {
		// Probably a password with a slash, whose second half would follow.
		return "", hint.Wrap(errors.New("invalid port"), "percent-encode special characters of a password")
	}
	path = strings.TrimLeft(path, "/")
	if path == "" && !schemeName().MatchString(scheme) {
		return bare, nil // a helper's form, as codecommit://profile@repository
	}
	return path, nil
}

// scpPath returns the path of [user@]host:path, or all of a local path. As in git, a colon
// after a slash belongs to a local path.
func scpPath(url string) (string, error) {
	start := 0
	if i := strings.Index(url, "["); i >= 0 && (i == 0 || url[i-1] == '@') && !strings.Contains(url[:i], "/") {
		if end := strings.Index(url[i:], "]:"); end >= 0 {
			start = i + end + 1 // an IPv6 address, or [host:port]
		}
	}
	colon := strings.Index(url[start:], ":")
	slash := strings.Index(url[start:], "/")
	if colon < 0 || slash >= 0 && slash < colon {
		return url, nil
	}
	path := url[start+colon+1:]
	if strings.HasPrefix(path, "/") && schemeName().MatchString(url[:start+colon]) {
		return "", errors.New("missing slash after the scheme")
	}
	return strings.TrimLeft(path, "/"), nil
}

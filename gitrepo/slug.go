package gitrepo

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Slug extracts the repository's slug from a remote's URL. Sandboxes on the host
// and backlogs inside are named by it. It is what stands below the host, without slashes at the ends and without one ".git"; "owner/repo"
// on most hosts, all components where there are groups. Of a local path or a
// file:// URL it is the whole path. User names, passwords, ports and queries
// never get into it, nor into the error.
func Slug(url string) (string, error) {
	url = strings.TrimSpace(url)
	if url == "" {
		return "", errors.New("it is empty")
	}
	if !utf8.ValidString(url) || strings.ContainsFunc(url, unicode.IsControl) {
		return "", errors.New("it holds control characters or invalid UTF-8")
	}
	path, err := remotePath(url)
	if err != nil {
		return "", err
	}
	path = strings.TrimRight(path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, ".git"), "/")
	if path == "" {
		return "", errors.New("it has no path")
	}
	if credentials().MatchString(path) {
		return "", errors.New("it seems to hold a password where git takes none")
	}
	return path, nil
}

var (
	schemeURL   = lazyregexp.New(`^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$`)
	helperURL   = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9+.-]*)::(.*)$`)
	windowsPath = lazyregexp.New(`^([A-Za-z]:[\\/]|\\\\)`)
	portSuffix  = lazyregexp.New(`:[0-9]*$`)
	schemeName  = lazyregexp.New(`^(?i:https?|ssh|git|ftps?|file)$`)
	// credentials in one component of a path mean a URL that was mistyped.
	credentials = lazyregexp.New(`:[^/]*@|@[^/]*:`)
)

// remotePath is the path of any kind of remote URL that git knows. The order
// of the cases is git's own.
func remotePath(url string) (string, error) {
	if m := schemeURL().FindStringSubmatch(url); m != nil {
		if strings.EqualFold(m[1], "file") {
			return filePath(m[2]), nil
		}
		return networkPath(m[1], m[2])
	}
	if m := helperURL().FindStringSubmatch(url); m != nil {
		if m[1] == "ext" || m[1] == "fd" {
			return "", errors.New("it names a command, not a place")
		}
		return remotePath(m[2])
	}
	if windowsPath().MatchString(url) {
		return strings.ReplaceAll(url, `\`, "/"), nil
	}
	return scpPath(url)
}

// filePath is the path of a file:// URL. Before a drive letter its first slash
// means nothing.
func filePath(rest string) string {
	if trimmed := strings.TrimPrefix(rest, "/"); windowsPath().MatchString(trimmed) {
		return strings.ReplaceAll(trimmed, `\`, "/")
	}
	return rest
}

// networkPath is the path below the host of scheme://[user@]host[:port]/path.
func networkPath(scheme, rest string) (string, error) {
	rest, _, _ = strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	host := authority[strings.LastIndex(authority, "@")+1:]
	bare := portSuffix().ReplaceAllString(host, "")
	if strings.Contains(bare, ":") && !strings.HasPrefix(bare, "[") {
		// Most likely a password with a slash in it; what follows would be
		// its second half.
		return "", errors.New("its port is not a number (special characters of a password have to be percent-encoded)")
	}
	path = strings.TrimLeft(path, "/")
	if path == "" && !schemeName().MatchString(scheme) {
		return bare, nil // a helper's own form, as codecommit://profile@repository
	}
	return path, nil
}

// scpPath is the path of [user@]host:path, or the whole of a local path. As
// for git, a colon after a slash belongs to a local path.
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
		return "", errors.New("a slash is missing after its scheme")
	}
	return strings.TrimLeft(path, "/"), nil
}

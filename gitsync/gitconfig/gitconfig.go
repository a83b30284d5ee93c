// Package gitconfig derives the configuration of a sandbox's git directory from the
// user's: without credentials, and without programs that git runs.
package gitconfig

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// copied are the settings that a sandbox gets: those about the form of files, and the
// user's name.
func copied() map[string]bool {
	return map[string]bool{
		"user.name": true, "user.email": true, "init.defaultbranch": true,
		"core.filemode": true, "core.ignorecase": true, "core.symlinks": true, "core.precomposeunicode": true,
		"core.autocrlf": true, "core.eol": true, "core.safecrlf": true, "core.checkroundtripencoding": true,
		"core.sparsecheckout": true, "core.sparsecheckoutcone": true, "index.sparse": true,
		"core.protecthfs": true, "core.protectntfs": true, "core.longpaths": true,
		"extensions.objectformat": true, "merge.conflictstyle": true, "pull.rebase": true, "pull.ff": true, "diff.renames": true,
	}
}

// Sanitize returns the configuration of the sandbox's git directory, whose branch is that of
// the user.
func Sanitize(all gitrepo.Config, branch string) string {
	format, copied := "0", copied()
	var settings gitrepo.Config
	add := func(section, sub, name, value string) {
		settings = append(settings, gitrepo.Setting{Section: section, Sub: sub, Name: name, Value: value})
	}
	for _, s := range all {
		switch {
		case s.Sub == "" && copied[s.Section+"."+s.Name] && all.Last(s.Section, s.Name) == s.Value:
			add(s.Section, "", s.Name, s.Value)
			if s.Section == "extensions" {
				format = "1"
			}
		case s.Section == "filter" && (s.Name == "clean" || s.Name == "process") && s.Value != "":
			add("filter", s.Sub, "required", "false") // a section without programs: see ralph/amend
		case s.Section == "branch" && s.Sub == branch && (s.Name == "remote" || s.Name == "merge"):
			add("branch", branch, s.Name, s.Value)
		case s.Section == "remote" && s.Name == "url" && remoteName().MatchString(s.Sub):
			if u, ok := safeURL(s.Value); ok {
				add("remote", s.Sub, "url", u)
				add("remote", s.Sub, "fetch", "+refs/heads/*:refs/remotes/"+s.Sub+"/*")
			}
		}
	}
	// In a sparse checkout, git would show files that are excluded from commits as changed.
	add("sparse", "", "expectfilesoutsideofpatterns", "true")
	add("core", "", "repositoryformatversion", format)
	add("core", "", "bare", "false")
	add("core", "", "logallrefupdates", "true")
	add("commit", "", "gpgsign", "false")
	add("tag", "", "gpgsign", "false")
	add("protocol", "ext", "allow", "never")
	var b strings.Builder
	written := map[gitrepo.Setting]bool{}
	for _, s := range settings {
		if !written[s] && plain(s.Value) && plain(s.Sub) {
			written[s] = true
			writeSetting(&b, s)
		}
	}
	return b.String()
}

// plain reports whether a text needs no escapes in git's configuration.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func writeSetting(b *strings.Builder, s gitrepo.Setting) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	section := s.Section
	if s.Sub != "" {
		section += ` "` + quote.Replace(s.Sub) + `"`
	}
	_, _ = fmt.Fprintf(b, "[%s]\n\t%s = \"%s\"\n", section, s.Name, quote.Replace(s.Value))
}

var (
	remoteName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	scpURL     = lazyregexp.New(`^(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^:@?#\s]+)$`)
)

// safeURL returns a remote's URL without credentials, if it names another machine and
// starts no program.
func safeURL(raw string) (string, bool) {
	if !plain(raw) || strings.Contains(raw, "::") {
		return "", false
	}
	if !strings.Contains(raw, "://") {
		m := scpURL().FindStringSubmatch(raw)
		if m == nil || len(m[2]) < 2 { // C:path
			return "", false
		}
		return raw, true
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || strings.HasPrefix(u.Host, "-") {
		return "", false
	}
	switch u.Scheme {
	case "https", "http", "git":
		u.User = nil
	case "ssh":
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
	default:
		return "", false
	}
	u.RawQuery, u.Fragment, u.ForceQuery = "", "", false
	return u.String(), true
}

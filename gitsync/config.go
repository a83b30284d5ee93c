package gitsync

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// setting is one value of git's configuration.
type setting struct{ section, sub, name, value string }

// kept are the settings that say how the files of the work tree are, and whose
// they are. Nothing else of the user's configuration goes into a sandbox.
func kept() map[string]bool {
	return map[string]bool{
		"user.name": true, "user.email": true, "init.defaultbranch": true,
		"core.filemode": true, "core.ignorecase": true, "core.symlinks": true, "core.precomposeunicode": true,
		"core.autocrlf": true, "core.eol": true, "core.safecrlf": true, "core.checkroundtripencoding": true,
		"core.sparsecheckout": true, "core.sparsecheckoutcone": true, "index.sparse": true,
		"core.protecthfs": true, "core.protectntfs": true, "core.longpaths": true,
		"extensions.objectformat": true, "merge.conflictstyle": true, "pull.rebase": true, "pull.ff": true, "diff.renames": true,
	}
}

// readConfig returns git's effective configuration, that of the system
// included: it is read, and nothing in it is run.
func (r *Repo) readConfig(ctx context.Context) ([]setting, error) {
	out, err := r.git.with("GIT_CONFIG_NOSYSTEM=0").run(ctx, nil, "config", "--null", "--list", "--includes")
	if err != nil {
		return nil, fmt.Errorf("reading git's configuration: %w", err)
	}
	var all []setting
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, has := strings.Cut(entry, "\n")
		if key == "" {
			continue
		}
		if !has {
			value = "true"
		}
		section, rest, _ := strings.Cut(key, ".")
		s := setting{section: section, name: rest, value: value}
		if i := strings.LastIndex(rest, "."); i >= 0 {
			s.sub, s.name = rest[:i], rest[i+1:]
		}
		all = append(all, s)
	}
	return all, nil
}

// last returns the effective value of a setting without a subsection.
func last(all []setting, section, name string) string {
	for _, s := range slices.Backward(all) {
		if s.section == section && s.sub == "" && s.name == name {
			return s.value
		}
	}
	return ""
}

// cleanConfig writes the configuration of the sandbox's git directory.
func cleanConfig(all []setting, branch string) string {
	format, keep := "0", kept()
	var b strings.Builder
	var sets []setting
	for _, s := range all {
		key := s.section + "." + s.name
		switch {
		case s.sub == "" && keep[key] && last(all, s.section, s.name) == s.value:
			sets = append(sets, s)
			if s.section == "extensions" {
				format = "1"
			}
		case s.section == "branch" && s.sub == branch && (s.name == "remote" || s.name == "merge"):
			sets = append(sets, s)
		case s.section == "remote" && s.name == "url" && remoteName().MatchString(s.sub):
			if u, ok := safeURL(s.value); ok {
				sets = append(sets, setting{"remote", s.sub, "url", u},
					setting{"remote", s.sub, "fetch", "+refs/heads/*:refs/remotes/" + s.sub + "/*"})
			}
		}
	}
	// Or else git would show files that are left out of commits as changed where the
	// checkout is sparse.
	sets = append(sets, setting{"sparse", "", "expectfilesoutsideofpatterns", "true"})
	sets = append([]setting{
		{"core", "", "repositoryformatversion", format},
		{"core", "", "bare", "false"},
		{"core", "", "logallrefupdates", "true"},
		{"commit", "", "gpgsign", "false"},
		{"tag", "", "gpgsign", "false"},
		{"protocol", "ext", "allow", "never"},
	}, sets...)
	written := map[setting]bool{}
	for _, s := range sets {
		if !written[s] && plain(s.value) && plain(s.sub) {
			written[s] = true
			writeSetting(&b, s)
		}
	}
	return b.String()
}

// plain says that a text can stand in git's configuration as it is.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func writeSetting(b *strings.Builder, s setting) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	head := s.section
	if s.sub != "" {
		head += ` "` + quote.Replace(s.sub) + `"`
	}
	_, _ = fmt.Fprintf(b, "[%s]\n\t%s = \"%s\"\n", head, s.name, quote.Replace(s.value))
}

var (
	remoteName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	scpURL     = lazyregexp.New(`^(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^:@?#\s]+)$`)
)

// safeURL returns a remote's URL without credentials, if it is one that leads to
// another machine and starts no program.
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

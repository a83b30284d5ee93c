package pullrequest

import (
	"net/url"
	"strings"

	"github.com/docker-ralph/docker-ralph/credential"
)

// forge is where a pull request is opened.
type forge struct {
	credential.GitRemote
	// program is that of the forge, "gh" or "glab"; empty for an unknown forge.
	program string
}

// forgeOf detects the forge of a remote by the name of its host.
func forgeOf(remote string) (forge, bool) {
	r, ok := credential.ParseGitRemote(remote)
	f := forge{GitRemote: r}
	for _, label := range strings.FieldsFunc(r.Host, func(c rune) bool { return c == '.' || c == '-' }) {
		switch label {
		case "github":
			f.program = "gh"
		case "gitlab":
			f.program = "glab"
		}
	}
	return f, ok
}

func (f forge) url() string { return "https://" + f.Host + f.Path }

// maxURL is how long a URL may be with the text of a pull request.
const maxURL = 7000

// page returns the URL of the page on which the user can open a pull request, with its text unless it has none or it is
// too long; that of the repository for an unknown forge.
func (f forge) page(p proposal) string {
	var address string
	short, text := url.Values{}, url.Values{}
	switch f.program {
	case "gh":
		address = f.url() + "/compare/" + url.PathEscape(p.Base) + "..." + url.PathEscape(p.Branch)
		short.Set("expand", "1")
		text.Set("title", p.Title)
		text.Set("body", p.Body)
	case "glab":
		address = f.url() + "/-/merge_requests/new"
		short.Set("merge_request[source_branch]", p.Branch)
		short.Set("merge_request[target_branch]", p.Base)
		text.Set("merge_request[title]", p.Title)
		text.Set("merge_request[description]", p.Body)
	default:
		return f.url()
	}
	address += "?" + short.Encode()
	if full := address + "&" + text.Encode(); p.Body != "" && len(full) <= maxURL {
		return full
	}
	return address
}

// command returns the arguments of the program that opens a pull request. The body is its input, or an argument.
func (f forge) command(p proposal) []string {
	if f.program == "gh" {
		args := []string{"pr", "create", "--repo=" + f.Host + f.Path, "--head=" + p.Branch, "--base=" + p.Base, "--title=" + p.Title, "--body-file=-"}
		if p.Draft {
			args = append(args, "--draft")
		}
		return args
	}
	args := []string{"mr", "create", "--yes", "--repo=" + f.url(), "--source-branch=" + p.Branch, "--target-branch=" + p.Base, "--title=" + p.Title, "--description=" + p.Body}
	if p.Draft {
		args = append(args, "--draft")
	}
	return args
}

package amend

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// commit is a commit object.
type commit struct {
	tree    string
	parents []string
	header  []string // the other lines, but for signatures
	signed  bool
	message string
}

// parse parses a commit object.
func parse(text string) commit {
	header, message, _ := strings.Cut(text, "\n\n")
	c := commit{message: message}
	dropped := false
	for line := range strings.SplitSeq(header, "\n") {
		name, value, _ := strings.Cut(line, " ")
		switch {
		case name == "" && dropped: // continues a signature
		case name == "tree":
			c.tree = value
		case name == "parent":
			c.parents = append(c.parents, value)
		case name == "gpgsig", name == "gpgsig-sha256":
			c.signed = true
		default:
			c.header = append(c.header, line)
		}
		dropped = name == "gpgsig" || name == "gpgsig-sha256" || name == "" && dropped
	}
	return c
}

// write writes a commit, and signs it if it was signed.
func (r *rewrite) write(ctx context.Context, c commit) (id string, err error) {
	if c.signed {
		return r.sign(ctx, c)
	}
	text := "tree " + c.tree + "\n"
	for _, parent := range c.parents {
		text += "parent " + parent + "\n"
	}
	text += strings.Join(c.header, "\n") + "\n\n" + c.message
	return r.git(ctx, text, "hash-object", "-t", "commit", "-w", "--stdin")
}

// person is the author or committer in a commit object.
var person = lazyregexp.New(`^(author|committer) (.*) <(.*)> ([0-9]+ [+-][0-9]{4})$`)

// sign writes a signed commit.
func (r *rewrite) sign(ctx context.Context, c commit) (id string, err error) {
	g := r.program()
	for _, line := range c.header {
		if m := person().FindStringSubmatch(line); m != nil {
			who := "GIT_" + strings.ToUpper(m[1])
			g.Environ = append(g.Environ, who+"_NAME="+m[2], who+"_EMAIL="+m[3], who+"_DATE=@"+m[4])
		}
	}
	args := []string{"commit-tree", "-S", c.tree}
	for _, parent := range c.parents {
		args = append(args, "-p", parent)
	}
	if id, err = run(ctx, g, c.message, args...); err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	return strings.TrimSpace(id), nil
}

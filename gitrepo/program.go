package gitrepo

import "context"

// Program is the host's git program, run in one directory. It asks nothing,
// speaks English, and has no hooks; GIT_DIR and its relatives are not passed on.
type Program struct{ git git }

// NewProgram finds the git program. That there is none is an error that says
// where to get it.
func NewProgram(dir string) (Program, error) {
	g, err := newGit(dir)
	return Program{g}, err
}

// Run runs git and returns its output. An error holds git's own words. If git
// says nothing and fails, it wraps its exit status.
func (p Program) Run(ctx context.Context, args ...string) (string, error) {
	a := p.git.run(ctx, args...)
	return a.stdout, a.err
}

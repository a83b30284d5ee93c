package microvm

import "time"

// call is a command of the program and how long it may take.
type call struct {
	limit time.Duration
	args  []string
}

func listCall() call { return call{limitList, []string{"ls", "--json"}} }

// inside runs a small command of ours in a sandbox.
func (d *Driver) inside(name string, limit time.Duration, command ...string) call {
	return call{limit, append(d.Dialect.Exec(name, ExecOptions{}), command...)}
}

package microvm

import "context"

// meanwhile does something while a program is about to be asked to do something.
type meanwhile struct {
	program
	do func()
}

func (m meanwhile) client(ctx context.Context) (client, error) {
	m.do()
	return m.program.client(ctx)
}

// Meanwhile is a driver that does something while its program is about to be asked to
// do something.
func (d *Driver) Meanwhile(do func()) *Driver {
	during := *d
	during.program = meanwhile{d.program, do}
	return &during
}

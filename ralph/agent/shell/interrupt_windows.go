package shell

// interrupts does nothing: sandboxes run Linux.
type interrupts struct{}

func watchInterrupts() interrupts { return interrupts{} }

func (interrupts) stop() {}

func (interrupts) received() bool { return false }

package shell

// interrupts notices nothing: ralph runs in sandboxes, and they are Linux.
type interrupts struct{}

func watchInterrupts() interrupts { return interrupts{} }

func (interrupts) stop() {}

func (interrupts) came() bool { return false }

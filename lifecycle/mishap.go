package lifecycle

// Mishap is what has happened to a sandbox under a command that ran in it. The
// zero value is nothing.
type Mishap struct {
	// What completes a sentence that begins with the sandbox: "was killed".
	What string
	// Asked says that somebody has stopped it on purpose.
	Asked bool
}

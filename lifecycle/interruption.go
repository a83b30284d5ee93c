package lifecycle

// Interruption is what happened to a sandbox while a command ran in it. The zero value
// means nothing.
type Interruption struct {
	// What is a predicate of the sandbox, such as "was killed".
	What string
	// Asked means that the user has stopped it.
	Asked bool
}

//go:build !linux

package selftest

// checkOwner has nothing to do where engines run in virtual machines, which map
// owners themselves.
func checkOwner(string) (string, error) { return "", nil }

package plugin

import "os/exec"

// sharedLogin returns no options: ssh of Windows cannot share a login.
func sharedLogin() []string { return nil }

// newSession does nothing: signals of the console do not reach ssh.
func newSession(*exec.Cmd) {}

package plugin

// sharedLogin returns no options: ssh of Windows cannot share a login.
func sharedLogin() []string { return nil }

package gitsync

import "os/exec"

// owner is the user whose repository it is, which is us.
type owner struct{}

func ownerOf(string) owner { return owner{} }

func (owner) runAs(*exec.Cmd) {}

func (owner) give(string) error { return nil }

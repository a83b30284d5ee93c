//go:build unix

package gitsync

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// owner is the user whose repository it is. When root asks, files in it still
// have to be that user's.
type owner struct {
	uid, gid int
	other    bool // than we are, and we are root
}

func ownerOf(path string) owner {
	info, err := os.Stat(path)
	if err != nil {
		return owner{}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}
	}
	return owner{uid: int(st.Uid), gid: int(st.Gid), other: os.Geteuid() == 0 && st.Uid != 0}
}

// runAs lets a process run as the owner, who has another configuration than we
// have.
func (o owner) runAs(cmd *exec.Cmd) {
	if !o.other {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)} //nolint:gosec // they were of this type
	cmd.Env = append(slices.Clone(cmd.Env), "HOME="+os.DevNull, "XDG_CONFIG_HOME="+os.DevNull, "GIT_CONFIG_GLOBAL="+os.DevNull)
}

// give makes a file that we have made the owner's.
func (o owner) give(path string) error {
	if !o.other {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

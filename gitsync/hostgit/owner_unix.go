//go:build unix

package hostgit

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// Owner is the user that owns the repository. What root does in it has to belong to
// that user.
type Owner struct {
	uid, gid int
	other    bool // the process is root's, the repository is not
}

func ownerOf(path string) Owner {
	info, err := os.Stat(path)
	if err != nil {
		return Owner{}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{}
	}
	return Owner{uid: int(st.Uid), gid: int(st.Gid), other: os.Geteuid() == 0 && st.Uid != 0}
}

func (o Owner) isOther() bool { return o.other }

// runAs starts a process as the owner, without root's configuration.
func (o Owner) runAs(cmd *exec.Cmd) {
	if !o.other {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)} //nolint:gosec // they were of this type
	cmd.Env = append(slices.Clone(cmd.Env), "HOME="+os.DevNull, "XDG_CONFIG_HOME="+os.DevNull, "GIT_CONFIG_GLOBAL="+os.DevNull)
}

// Chown makes the owner own a file.
func (o Owner) Chown(path string) error {
	if !o.other {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

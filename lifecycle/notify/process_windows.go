package notify

import "os/exec"

func ownGroup(*exec.Cmd) {}

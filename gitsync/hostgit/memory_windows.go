package hostgit

import "os/exec"

func limitMemory(*exec.Cmd) {}

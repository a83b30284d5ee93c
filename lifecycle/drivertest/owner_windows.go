package drivertest

import (
	"os"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// ownerOf knows no numbers here.
func ownerOf(os.FileInfo) (lifecycle.User, bool) { return lifecycle.User{}, false }

package host

import "github.com/docker-ralph/docker-ralph/lifecycle"

// imageUser is the user "agent" of the images.
var imageUser = lifecycle.User{UID: 1000, GID: 1000}

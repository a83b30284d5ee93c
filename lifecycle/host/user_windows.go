package host

import "github.com/docker-ralph/docker-ralph/lifecycle"

// InvokingUser is the user of the image: Docker Desktop maps owners itself.
func InvokingUser(string) (lifecycle.User, error) { return imageUser, nil }

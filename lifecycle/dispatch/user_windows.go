package dispatch

import "github.com/docker-ralph/docker-ralph/lifecycle"

func invokingUser(string) (lifecycle.User, error) { return imageUser, nil }

package engine

import (
	"net"
	"net/url"
)

// Local reports whether the engine at an address, as in DOCKER_HOST, is on this machine. An address
// that cannot be parsed counts as local: the engine's client reports it.
func Local(host string) bool {
	u, err := url.Parse(host)
	if err != nil || host == "" {
		return true
	}
	switch u.Scheme {
	case "unix", "npipe", "fd":
		return true
	case "tcp", "http", "https":
		name := u.Hostname()
		ip := net.ParseIP(name)
		return name == "localhost" || ip != nil && ip.IsLoopback()
	}
	return false
}

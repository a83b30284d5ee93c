package container

import (
	"os"
	"runtime"

	"github.com/docker-ralph/docker-ralph/egress"
)

// ipv6 returns the settings that disable IPv6, but for the address ::1 of a sandbox without
// a network: the engine names it in /etc/hosts. The order in which they take effect is random.
func (i isolation) ipv6() map[string]string {
	switch {
	case !i.remote && !hasIPv6():
		return map[string]string{}
	case i.mode != egress.AllowAll && i.network == "":
		return map[string]string{"net.ipv6.conf.default.disable_ipv6": "1", "net.ipv6.conf.lo.disable_ipv6": "0"}
	default:
		return map[string]string{"net.ipv6.conf.all.disable_ipv6": "1"}
	}
}

// hasIPv6 reports whether the kernel has the setting that disables IPv6. The kernel
// is that of the engine on Linux only.
func hasIPv6() bool {
	if runtime.GOOS != "linux" {
		return true
	}
	_, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil
}

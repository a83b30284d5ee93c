package canary

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
	"github.com/docker-ralph/docker-ralph/wire"
)

// probe is one attempt to connect.
type probe struct {
	what string
	// try returns nil if it succeeds.
	try func(ctx context.Context) error
}

// firewall reports whether the network is open but for a firewall.
func (q Question) firewall() bool { return !q.Proxy.IsValid() }

// Run makes all attempts.
func Run(ctx context.Context, q Question) (Answer, error) {
	answer := Answer{Open: []string{}, Broken: []string{}}
	if q.firewall() {
		if err := firewall.Apply(q.Near); err != nil {
			return Answer{}, err
		}
	}
	probes := append(q.toHosts(), q.toMetadata()...)
	probes = append(probes, q.byIPv6()...)
	if q.Proxy.IsValid() {
		probes = append(probes, q.outside()...)
	}
	answer.Open = append(answer.Open, q.all(ctx, q.Wait, probes)...)
	if q.Proxy.IsValid() {
		q.askProxy(ctx, &answer)
		answer.Open = append(answer.Open, q.all(ctx, q.Wait, q.byResolvers())...)
	}
	return answer, nil
}

// late is the tolerated delay of a timer. If it is exceeded, the machine is so busy that
// an answer may have been missed.
const late = 20 * time.Millisecond

// all makes all attempts in parallel and returns the successful ones. On a busy machine,
// it repeats them up to three times with longer timeouts.
func (q Question) all(ctx context.Context, wait time.Duration, probes []probe) []string {
	var open []string
	for range 3 {
		began := time.Now()
		open = q.once(ctx, wait, probes)
		if len(open) > 0 || time.Since(began) < wait+late {
			break
		}
		wait *= 2
	}
	return open
}

func (q Question) once(ctx context.Context, wait time.Duration, probes []probe) []string {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	open := make([]string, len(probes))
	under := underWay{}
	under.waiting.Store(int64(len(probes)))
	if q.firewall() {
		if dropped, err := firewall.Dropped(); err == nil {
			go func() {
				if under.allDropped(ctx, dropped) {
					cancel()
				}
			}()
		}
	}
	var wg sync.WaitGroup
	for i, p := range probes {
		wg.Go(func() {
			err := p.try(ctx)
			if err == nil {
				open[i] = p.what
			}
			under.ends(err)
		})
	}
	wg.Wait()
	return slices.DeleteFunc(open, func(s string) bool { return s == "" })
}

// hostPorts are ports on which a host is likely to answer, if only with a reset.
func hostPorts() []uint16 { return []uint16{22, 53, 80, 443, 2375, 8080} }

// toHosts returns probes of the engine's host, also bound to the device, which needs no
// route.
func (q Question) toHosts() []probe {
	var probes []probe
	device := firstDevice()
	for _, host := range q.Hosts {
		probes = append(
			probes,
			probe{fmt.Sprintf("ping of %s answers", host), q.pings(host)},
			probe{fmt.Sprintf("%s answers by UDP", host), q.answersUDP(netip.AddrPortFrom(host, wire.PortDNS), "")},
		)
		for _, port := range hostPorts() {
			to := netip.AddrPortFrom(host, port)
			probes = append(probes, probe{fmt.Sprintf("%s answers", to), q.answersTCP(to, "")})
			if device != "" {
				probes = append(probes, probe{fmt.Sprintf("%s answers at %s", to, device), q.answersTCP(to, device)})
			}
		}
	}
	return probes
}

// toMetadata returns probes of the metadata services of clouds.
func (q Question) toMetadata() []probe {
	var probes []probe
	for _, a := range [...]string{"169.254.169.254:80", "169.254.170.2:80", "100.100.100.200:80", "168.63.129.16:80"} {
		to := netip.MustParseAddrPort(a)
		probes = append(
			probes,
			probe{fmt.Sprintf("%s answers", to), q.answersTCP(to, "")},
			probe{fmt.Sprintf("%s answers at %s", to, firstDevice()), q.answersTCP(to, firstDevice())},
		)
	}
	return probes
}

// outside returns probes of addresses on the internet that always answer.
func (q Question) outside() []probe {
	var probes []probe
	for _, a := range [...]string{"1.1.1.1", "8.8.8.8"} {
		host := netip.MustParseAddr(a)
		probes = append(
			probes,
			probe{fmt.Sprintf("%s answers", host), q.answersTCP(netip.AddrPortFrom(host, 443), "")},
			probe{fmt.Sprintf("the resolver %s answers by TCP", host), q.answersTCP(netip.AddrPortFrom(host, 53), "")},
			probe{fmt.Sprintf("the resolver %s answers", host), q.answersUDP(netip.AddrPortFrom(host, 53), "")},
			probe{fmt.Sprintf("ping of %s answers", host), q.pings(host)},
		)
	}
	return probes
}

// byIPv6 returns probes over IPv6.
func (q Question) byIPv6() []probe {
	to := netip.MustParseAddrPort("[2606:4700:4700::1111]:443")
	return []probe{
		{"there is an IPv6 address", func(context.Context) error { return hasIPv6() }},
		{fmt.Sprintf("%s answers", to), q.answersTCP(to, "")},
	}
}

// byResolvers returns probes of names that are not allowed: a random one, which is in no
// cache, and one that every public resolver answers.
func (q Question) byResolvers() []probe {
	secret := strings.ToLower(rand.Text()) + ".canary.example"
	servers := append(resolvers(), netip.AddrPortFrom(q.Proxy, wire.PortDNS))
	var probes []probe
	for _, server := range servers {
		for _, name := range []string{"example.com", secret} {
			probes = append(probes, probe{
				fmt.Sprintf("the resolver %s knows %s", server.Addr(), name),
				func(ctx context.Context) error { return resolves(ctx, server, name, q.Proxy) },
			})
		}
	}
	return probes
}

// askProxy verifies that the proxy answers and rejects a host.
func (q Question) askProxy(ctx context.Context, answer *Answer) {
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	for _, target := range []string{strings.ToLower(rand.Text()) + ".canary.invalid:443", "169.254.169.254:80"} {
		status, err := q.connectWithRetry(ctx, target)
		switch {
		case err != nil:
			answer.Broken = append(answer.Broken, err.Error())
		case status == 200:
			answer.Open = append(answer.Open, "the proxy connects to "+target)
		case status != 403:
			answer.Broken = append(answer.Broken, fmt.Sprintf("asked for %s it answers with status %d", target, status))
		}
	}
}

// connectWithRetry retries until the proxy, which may be starting, answers or ctx ends.
func (q Question) connectWithRetry(ctx context.Context, target string) (status int, err error) {
	deadline, limited := ctx.Deadline()
	for {
		s, tryErr := connectThrough(ctx, netip.AddrPortFrom(q.Proxy, wire.PortProxy), target)
		if tryErr == nil {
			return s, nil
		}
		// Keep the earlier error, which says more than a timeout. A connection can time
		// out before ctx.
		if err == nil || !limited || time.Now().Before(deadline) {
			err = tryErr
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func firstDevice() string {
	devices, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, d := range devices {
		if d.Flags&net.FlagLoopback == 0 && d.Flags&net.FlagUp != 0 {
			return d.Name
		}
	}
	return ""
}

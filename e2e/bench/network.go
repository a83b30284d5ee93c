//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rounds is how often a benchmark of Go is run, each time with all ways in turn.
const rounds = 7

// Goals of the network isolation of a sandbox.
const (
	proxyShare  = 0.6 // of what a connection carries without the proxy
	proxyAim    = 0.8
	proxyAdds   = time.Millisecond
	proxyMemory = 16 // MiB
	policyAdds  = 500 * time.Millisecond
	syncTakes   = 150 * time.Millisecond
)

// network measures the proxy, network policies and the private git directory.
func (b *bench) network() error {
	if err := b.proxy(); err != nil {
		return err
	}
	if err := b.sync(); err != nil {
		return err
	}
	if err := b.policies(); err != nil {
		return err
	}
	return b.eachEngine(b.proxyMemory)
}

// proxy measures HTTPS over loopback, past the proxy and through it.
func (b *bench) proxy() error {
	transfers, err := b.goBench("./egress/proxy", "Throughput", "3x", "direct", "connect", "sni")
	if err != nil {
		return err
	}
	connections, err := b.goBench("./egress/proxy", "NewConnection", "100x", "direct", "connect", "sni")
	if err != nil {
		return err
	}
	ways := []struct{ way, name string }{{"connect", "CONNECT"}, {"sni", "SNI"}}
	for _, w := range ways {
		mine, direct := transfers.of(w.way, "MB/s"), transfers.of("direct", "MB/s")
		fmt.Printf("%-35s %.0f MB/s, direct %.0f MB/s, ratio %.2f (goal: at least %.1f, aim %.1f)\n",
			"HTTPS through the proxy by "+w.name, middle(mine), middle(direct), middle(each(mine, direct, func(m, d float64) float64 { return m / d })), proxyShare, proxyAim)
	}
	for _, w := range ways {
		mine, direct := connections.of(w.way, "ns/op"), connections.of("direct", "ns/op")
		m, d := middle(mine), middle(direct)
		above := middle(each(mine, direct, func(m, d float64) float64 { return m - d }))
		fmt.Printf("%-35s %s, direct %s, %s above, ratio %.2f (goal: at most %s above)\n",
			"new connection by "+w.name, ms(time.Duration(m)), ms(time.Duration(d)), ms(time.Duration(above)), m/d, ms(proxyAdds))
	}
	return nil
}

// sync measures how long it takes until a commit has come out of a sandbox.
func (b *bench) sync() error {
	syncs, err := b.goBench("./gitsync", "Sync", "3x", "")
	if err != nil {
		return err
	}
	took := middle(syncs.of("", "ns/op"))
	fmt.Printf("%-35s %s (goal: at most %s)\n", "sync of a commit, 10,000 files", ms(time.Duration(took)), ms(syncTakes))
	return nil
}

// policies measures the creation of sandboxes with a network policy and without one.
func (b *bench) policies() error {
	var ways []string
	for entry := range strings.SplitSeq(os.Getenv("RALPH_TEST_ENGINES"), ",") {
		name, _, _ := strings.Cut(entry, "=")
		ways = append(ways, name+"-open", name+"-isolated")
	}
	up, err := b.goBench("./lifecycle/container", "Up", "1x", ways...)
	if err != nil {
		return err
	}
	for i := 0; i < len(ways); i += 2 {
		open, isolated := up.of(ways[i], "ns/op"), up.of(ways[i+1], "ns/op")
		w, o := middle(isolated), middle(open)
		above := middle(each(isolated, open, func(w, o float64) float64 { return w - o }))
		fmt.Printf("%-7s %-32s %s, without %s, %s above, ratio %.2f (goal: at most %s above)\n", strings.TrimSuffix(ways[i], "-open"),
			"up with a network policy", ms(time.Duration(w)), ms(time.Duration(o)), ms(time.Duration(above)), w/o, ms(policyAdds))
	}
	return nil
}

// proxyMemory measures the memory of an idle proxy.
func (b *bench) proxyMemory() error {
	name, _, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _, _ = b.timeAll([][]string{removal(name)}) }()
	if _, err := b.timeAll([][]string{b.ralph("shell", "--", "true")}); err != nil { // starts the proxy
		return err
	}
	said, err := b.output("stats", "--no-stream", "--format", "{{.MemUsage}}", name+".egress")
	if err != nil {
		return err
	}
	used, _, _ := strings.Cut(said, " ")
	mib, err := mebibytes(used)
	if err != nil {
		return fmt.Errorf("reading the memory of the proxy from %q: %w", said, err)
	}
	fmt.Printf("%-7s %-32s %.1f MiB (goal: at most %d MiB)\n", b.engine, "memory of an idle proxy", mib, proxyMemory)
	return nil
}

// removal is a command that removes a sandbox with its proxy and networks.
func removal(name string) []string {
	return []string{"sh", "-c", "docker ralph clean --force --discard-commits " + name + " >/dev/null 2>&1 || :"}
}

// mebibytes reads a size as docker writes it.
func mebibytes(size string) (float64, error) {
	for _, unit := range []struct {
		name string
		mib  float64
	}{{"KiB", 1.0 / 1024}, {"MiB", 1}, {"GiB", 1024}} {
		if number, ok := strings.CutSuffix(size, unit.name); ok {
			n, err := strconv.ParseFloat(number, 64)
			return n * unit.mib, err
		}
	}
	return 0, errors.New("it has no unit that is known")
}

// results are the figures of a Go benchmark: those of each round by unit, by the
// way that was measured.
type results map[string]map[string][]float64

func (r results) of(name, unit string) []float64 { return r[name][unit] }

// goBench runs a benchmark of a package's tests, or parts of it. Each is measured
// in a process of its own, so that none is warmed up by another.
func (b *bench) goBench(pkg, name, times string, ways ...string) (results, error) {
	program := filepath.Join(b.dir, filepath.Base(pkg)+".test")
	build := exec.CommandContext(b.ctx, "go", "test", "-c", "-o", program, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the benchmarks of %s: %w\n%s", pkg, err, out)
	}
	all := results{}
	for range rounds {
		for _, way := range ways {
			pattern := "^Benchmark" + name + "$"
			if way != "" {
				pattern += "/^" + way + "$"
			}
			cmd := exec.CommandContext(b.ctx, program, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+times)
			cmd.Dir = filepath.FromSlash(pkg)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("running the benchmark %s of %s: %w\n%s", name, pkg, err, out)
			}
			if !all.read(way, string(out)) {
				return nil, fmt.Errorf("the benchmark %s of %s has no figures for %q:\n%s", name, pkg, way, out)
			}
		}
	}
	return all, nil
}

// read takes the line of a way, such as "BenchmarkX/way-2  16  106184791 ns/op  632.00 MB/s",
// and reports whether there is one.
func (r results) read(way, output string) bool {
	found := false
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			figure, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return false
			}
			if r[way] == nil {
				r[way] = map[string][]float64{}
			}
			r[way][fields[i+1]] = append(r[way][fields[i+1]], figure)
			found = true
		}
	}
	return found
}

// each combines the figures of the same rounds.
func each(a, b []float64, f func(a, b float64) float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = f(a[i], b[i])
	}
	return all
}

// middle is the median, and 0 if there is nothing.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

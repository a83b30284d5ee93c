package container_test

import (
	"bytes"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// dialLocal listens on all addresses, and prints which of its arguments lead there.
const dialLocal = `
use IO::Socket::IP;
my $any = IO::Socket::IP->new(Listen => 50, LocalHost => "0.0.0.0", LocalPort => 8080) or die $@;
my $six = IO::Socket::IP->new(Listen => 50, LocalHost => "::1", LocalPort => 8080);
for my $name (@ARGV) {
	my $c = IO::Socket::IP->new(PeerHost => $name, PeerPort => 8080, Type => SOCK_STREAM, Timeout => 5);
	print $name, $c ? " is local\n" : " fails: $@\n";
}`

// A sandbox reaches itself by all names and addresses that /etc/hosts has, and by those that
// programs assume. Its locale has UTF-8.
func TestSandboxFindsItself(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		for _, mode := range []egress.Mode{egress.Allowlist, egress.AllowAll} {
			sb, spec := isolated(t, s, mode)
			run := func(args ...string) string {
				t.Helper()
				var out bytes.Buffer
				code, err := s.Driver.Exec(t.Context(), sb, lifecycle.Process{ID: "try", Args: args, Dir: spec.Root, Stdout: &out, Stderr: &out})
				assert.NilError(t, err)
				assert.Equal(t, code, 0, out.String())
				return out.String()
			}
			names := append(egress.LoopbackNames(), "sandbox", "localhost", "127.0.0.1", "127.0.1.1", "0.0.0.0")
			if mode != egress.AllowAll { // there, the engine's resolver answers
				names = append(names, "shop.localhost")
			}
			if mode != egress.AllowAll && strings.Contains(run("cat", "/etc/hosts"), "::1") {
				names = append(names, "::1")
			}
			out := run(append([]string{"perl", "-e", dialLocal}, names...)...)
			for _, name := range names {
				assert.Check(t, is.Contains("\n"+out, "\n"+name+" is local\n"), "%s", mode)
			}
			assert.Check(t, is.Equal(run("sh", "-c", `hostname; echo "$LANG"; locale charmap`), "sandbox\nC.UTF-8\nUTF-8\n"))
		}
	})
}

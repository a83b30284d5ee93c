package container_test

import (
	"bytes"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// unruly asks for a deadline as ralph does, and then behaves as badly as it can:
// it forks, detaches, ignores signals, and stops all processes that it can.
const unruly = `
use IO::Socket::UNIX; use Socket;
my $s = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "\0docker-ralph-deadline") or die "no watchdog: $!";
print $s "1500\n"; $s->flush; my $said = <$s>; print "said $said"; $| = 1;
$SIG{$_} = "IGNORE" for qw(TERM INT HUP QUIT);
for (1 .. 3) {
	next if fork;
	open STDIN, "<", "/dev/null"; open STDOUT, ">", "/dev/null"; open STDERR, ">", "/dev/null";
	POSIX::setsid() if eval { require POSIX };
	while (1) { kill "STOP", -1; kill "KILL", 1; fork if rand() < 0.001; select undef, undef, undef, 0.05 }
}
kill "STOP", 1; kill "KILL", 1;
kill "STOP", $$ if $ENV{STOP};
sleep 100;
`

func TestDeadlineKillsEverything(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		sb, spec := s.Up(t)
		var out, errs bytes.Buffer
		began := time.Now()
		code, err := s.Driver.Exec(t.Context(), sb, lifecycle.Process{
			ID: "unruly", Args: []string{"perl", "-e", unruly}, Env: []string{"STOP=1"}, Dir: spec.Root, Stdout: &out, Stderr: &errs,
		})
		assert.NilError(t, err)
		assert.Check(t, is.Equal(out.String(), "said ok\n"))
		assert.Check(t, is.Equal(code, wire.ExitDeadline))
		assert.Check(t, is.Contains(errs.String(), "a run exceeded its time limit"))
		took := time.Since(began)
		assert.Check(t, took >= 1500*time.Millisecond && took < 20*time.Second, "%s", took)

		found, err := s.Driver.Lookup(t.Context(), sb.Name)
		assert.NilError(t, err)
		assert.Equal(t, found.State, lifecycle.Stopped)
		assert.NilError(t, s.Driver.Start(t.Context(), found))
		assert.Equal(t, sh(t, s.Driver, found, spec, "echo up"), "up\n")
	})
}

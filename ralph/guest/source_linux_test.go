package guest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"
)

const (
	newSQLite = "#!/bin/sh\necho '3.40.1 2022-12-28 14:03:47 df5c253c0b3d'\n"
	// A ralph.sh finds its parts beside its real path.
	script = `#!/bin/sh
here=$(readlink -f "$0")
. "${here%/*}/lib/part"
`
)

// checkout puts a ralph checkout, and what it needs, into the sandbox.
func (s sandbox) checkout(t *testing.T) {
	t.Helper()
	s.write(t, "checkout/ralph.sh", script, 0o644) // the bit is lost
	s.write(t, "checkout/lib/part", `echo theirs "$@"`, 0o644)
	s.write(t, "checkout/lib/task", "#!/bin/sh\n", 0o755)
	s.write(t, "checkout/models.json", "{}", 0o644)
	s.write(t, "checkout/hooks/precompact.sh", "#!/bin/sh\n", 0o755)
	s.write(t, "checkout/hooks/session_end.sh", "#!/bin/sh\n", 0o755)
	s.write(t, "checkout/skills/ralph-plan/SKILL.md", "plan", 0o644)
	s.write(t, "checkout/README.md", "not installed", 0o644)
	s.write(t, "checkout/.git/config", "not installed", 0o644)
}

func (s sandbox) programs(t *testing.T) {
	t.Helper()
	s.write(t, "tools/jq", "#!/bin/sh\n", 0o755)
	s.write(t, "tools/sqlite3", newSQLite, 0o755)
}

func TestBootstrapOfACheckout(t *testing.T) {
	for _, sudo := range []bool{false, true} {
		t.Run(map[bool]string{false: "as root", true: "by sudo"}[sudo], func(t *testing.T) {
			s := newSandbox(t)
			s.checkout(t)
			s.programs(t)
			s.write(t, "home/.claude/skills/mine/SKILL.md", "mine", 0o644)
			s.write(t, "home/.claude/settings.json", `{"model":"x"}`, 0o600)
			s.done(t, "/usr/bin/ralph", true) // ours first
			if sudo {
				s.sudo(t)
				s.protect(t)
			}
			args := []string{"--version", "v1", "--source", s.root + "/checkout"}
			s.done(t, "/usr/bin/ralph", true, args...)

			out, err := exec.CommandContext(t.Context(), s.root+"/usr/bin/ralph", "build", "a b").CombinedOutput()
			assert.NilError(t, err, string(out))
			assert.Equal(t, string(out), "theirs build a b\n")
			assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph"}) // task was our ralph
			assert.DeepEqual(t, s.names(t, "opt"), []string{"ralph"})
			assert.DeepEqual(t, s.names(t, "opt/ralph"), []string{"hooks", "lib", "models.json", "ralph.sh"})
			assert.DeepEqual(t, s.names(t, "home/.claude/skills"), []string{"mine", "ralph-plan"})
			assert.Equal(t, s.read(t, "home/.claude/skills/ralph-plan/SKILL.md"), "plan")
			settings := s.read(t, "home/.claude/settings.json")
			assert.Assert(t, cmp.Contains(settings, `"command": "bash `+s.root+`/opt/ralph/hooks/precompact.sh"`))
			assert.Assert(t, cmp.Contains(settings, `"model": "x"`))
			assert.DeepEqual(t, s.names(t, "home/.ralph"), []string{".bootstrap.lock", ".bootstrapped"}) // no database
			m := s.marker(t)
			assert.Equal(t, m.Hash, s.hash(t))
			assert.Equal(t, len(m.Source), 64)
			s.done(t, "/usr/bin/ralph", false, args...)

			// A changed checkout, with files less, installs again.
			s.write(t, "checkout/lib/part", "echo changed", 0o644)
			assert.NilError(t, os.Remove(s.root+"/checkout/models.json"))
			if sudo {
				s.protect(t)
			}
			s.done(t, "/usr/bin/ralph", true, args...)
			assert.DeepEqual(t, s.names(t, "opt/ralph"), []string{"hooks", "lib", "ralph.sh"})
			assert.Assert(t, s.marker(t).Source != m.Source)
			// So does a changed mode, and what somebody has damaged.
			assert.NilError(t, os.Chmod(s.root+"/checkout/lib/part", 0o755))
			s.done(t, "/usr/bin/ralph", true, args...)
			assert.NilError(t, os.WriteFile(s.root+"/opt/ralph/lib/part", nil, 0o755))
			s.done(t, "/usr/bin/ralph", true, args...)
			s.done(t, "/usr/bin/ralph", false, args...)

			s.done(t, "/usr/bin/ralph", true) // and back to ours
			assert.Assert(t, s.read(t, "usr/bin/ralph") == s.read(t, "mounted/ralph"))
			assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph", "task"})
		})
	}
}

func TestBootstrapTakesUpWhereItWasKilled(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, s sandbox){
		"between the renames": func(t *testing.T, s sandbox) {
			assert.NilError(t, os.Rename(s.root+"/opt/ralph", s.root+"/opt/.ralph.old"))
			s.write(t, "opt/.ralph.new/ralph.sh", script, 0o755)
		},
		"while copying": func(t *testing.T, s sandbox) {
			s.write(t, "opt/.ralph.new/junk", "", 0o755)
			s.write(t, "home/.ralph/.stage/ralph/junk", "", 0o755)
		},
		"before the link": func(t *testing.T, s sandbox) {
			assert.NilError(t, os.Remove(s.root+"/usr/bin/ralph"))
			s.write(t, "usr/bin/ralph.ralph-new", "", 0o644)
		},
		"before the marker": func(*testing.T, sandbox) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t)
			s.checkout(t)
			s.programs(t)
			args := []string{"--source", s.root + "/checkout"}
			s.done(t, "/usr/bin/ralph", true, args...)
			assert.NilError(t, os.Remove(markerPath(s.home)))
			leave(t, s)
			s.done(t, "/usr/bin/ralph", true, args...)
			out, err := exec.CommandContext(t.Context(), s.root+"/usr/bin/ralph", "x").CombinedOutput()
			assert.NilError(t, err, string(out))
			assert.Equal(t, string(out), "theirs x\n")
			assert.DeepEqual(t, s.names(t, "opt"), []string{"ralph"})
			assert.DeepEqual(t, s.names(t, "opt/ralph"), []string{"hooks", "lib", "models.json", "ralph.sh"})
			assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph"})
			assert.DeepEqual(t, s.names(t, "home/.ralph"), []string{".bootstrap.lock", ".bootstrapped"})
		})
	}
}

// TestBootstrapIsKilled kills it at any moment, and only itself: what it has
// started goes on, and must not spoil the next one.
func TestBootstrapIsKilled(t *testing.T) {
	s := newSandbox(t)
	s.checkout(t)
	s.programs(t)
	s.sudo(t)
	s.protect(t)
	args := []string{"--source", s.root + "/checkout"}
	for n := range 25 {
		_ = os.Remove(markerPath(s.home))
		cmd := s.command(t, args...)
		assert.NilError(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(n)*8*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or faster
		timer.Stop()
		if n%5 == 4 {
			stdout, stderr, code := s.bootstrap(t, args...)
			assert.Equal(t, code, 0, stderr)
			assert.Assert(t, cmp.Contains(stdout, s.root+"/usr/bin/ralph"))
			out, err := exec.CommandContext(t.Context(), s.root+"/usr/bin/ralph", "x").CombinedOutput()
			assert.NilError(t, err, string(out))
			assert.Equal(t, string(out), "theirs x\n")
			assert.DeepEqual(t, s.names(t, "opt"), []string{"ralph"})
			assert.DeepEqual(t, s.names(t, "opt/ralph"), []string{"hooks", "lib", "models.json", "ralph.sh"})
			assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph"})
			assert.DeepEqual(t, s.names(t, "home/.ralph"), []string{".bootstrap.lock", ".bootstrapped"})
		}
	}
}

// TestBootstrapWaitsForWhatAKilledOneStarted: two at work at once would take
// each other's files.
func TestBootstrapWaitsForWhatAKilledOneStarted(t *testing.T) {
	s := newSandbox(t)
	s.checkout(t)
	s.programs(t)
	s.sudo(t)
	log := s.root + "/steps.log"
	s.write(t, "tools/sudo", strings.Replace(s.read(t, "tools/sudo"), `"$@"; code=$?`, "echo begin >>"+log+"; [ -e "+log+".go ] || sleep 0.5\n\"$@\"; code=$?; echo end >>"+log, 1), 0o755)
	sleep, err := exec.LookPath("sleep")
	assert.NilError(t, err)
	assert.NilError(t, os.Symlink(sleep, s.tools+"/sleep"))
	s.protect(t)
	args := []string{"--source", s.root + "/checkout"}
	killed := s.command(t, args...)
	assert.NilError(t, killed.Start())
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if _, err := os.Stat(log); err != nil {
			return poll.Continue("it has not begun")
		}
		return poll.Success()
	}, poll.WithDelay(time.Millisecond))
	assert.NilError(t, killed.Process.Kill())
	assert.Assert(t, killed.Wait() != nil)
	s.write(t, "steps.log.go", "", 0o644)
	s.done(t, "/usr/bin/ralph", true, args...)
	steps := s.read(t, "steps.log")
	assert.Equal(t, steps, strings.Repeat("begin\nend\n", strings.Count(steps, "begin")))
}

func TestBootstrapGoesThroughTheProxy(t *testing.T) {
	s := newSandbox(t)
	s.checkout(t)
	s.apt(t, `echo "$http_proxy $no_proxy" >>"`+s.root+`/apt.log"
[ $1 = install ] && { echo '#!/bin/sh' | put jq; cp "`+s.root+`/sqlite3" "`+s.tools+`"; }
`)
	s.write(t, "sqlite3", newSQLite, 0o755)
	s.write(t, "tools/sudo", "#!/bin/sh\n[ \"$1 $2\" = '-n --preserve-env=http_proxy,https_proxy,no_proxy' ] || exit 9\nshift 2\nexec \"$@\"\n", 0o755)
	cmd := s.command(t, "--source", s.root+"/checkout")
	cmd.Env = append(cmd.Env, "HTTP_PROXY=http://proxy:3128", "HTTPS_PROXY=http://not-this:1", "no_proxy=small", "NO_PROXY=CAPITAL")
	_, stderr, code := result(t, cmd)
	assert.Equal(t, code, 0, stderr)
	assert.Assert(t, cmp.Contains(s.read(t, "apt.log"), "\nhttp://proxy:3128 small\n"))
}

func TestBootstrapOfACheckoutInParts(t *testing.T) {
	s := newSandbox(t)
	s.programs(t)
	s.write(t, "checkout/ralph.sh", "#!/bin/sh\necho alone\n", 0o755)
	s.write(t, "checkout/hooks/precompact.sh", "#!/bin/sh\n", 0o755) // one hook is none
	s.done(t, "/usr/bin/ralph", true, "--source", s.root+"/checkout")
	_, err := os.Stat(s.home + "/.claude")
	assert.Assert(t, os.IsNotExist(err))
}

// apt installs what sandboxes may lack, as lines of shell say.
func (s sandbox) apt(t *testing.T, lines string) {
	t.Helper()
	s.write(t, "tools/apt-get", `#!/bin/sh
echo "$DEBIAN_FRONTEND $*" >>"`+s.root+`/apt.log"
while case $1 in -o) shift ;; -*) ;; *) false ;; esac do shift; done
put() { cat >"`+s.tools+`/$1"; chmod 755 "`+s.tools+`/$1"; }
`+lines, 0o755)
}

func TestBootstrapInstallsPackages(t *testing.T) {
	const works = "[ $1 = install ] || exit 0\necho '#!/bin/sh' | put jq\nput sqlite3 <<'END'\n" + newSQLite + "END\n"
	for _, tc := range []struct{ name, apt, dpkg, log string }{
		{"both", works, "", "update\ninstall -y --no-install-recommends jq sqlite3\n"},
		{"lists that cannot be renewed", "[ $1 = update ] && exit 100\n" + works, "", "update\ninstall -y --no-install-recommends jq sqlite3\n"},
		{
			"another apt-get at work", "[ $1 = update ] && ! [ -e \"$0.again\" ] && { : >\"$0.again\"; echo 'E: Could not get lock /var/lib/apt/lists/lock' >&2; exit 100; }\n" + works, "",
			"update\nupdate\ninstall -y --no-install-recommends jq sqlite3\n",
		},
		{
			"a killed one", "[ $1 = install ] && ! [ -e \"$0.repaired\" ] && { echo 'E: dpkg was interrupted' >&2; exit 100; }\n" + works, "#!/bin/sh\n[ \"$*\" = '--configure -a' ] && : >\"${0%/*}/apt-get.repaired\"\n",
			"update\ninstall -y --no-install-recommends jq sqlite3\ninstall -y --no-install-recommends jq sqlite3\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSandbox(t)
			s.checkout(t)
			s.sudo(t)
			s.apt(t, tc.apt)
			if tc.dpkg != "" {
				s.write(t, "tools/dpkg", tc.dpkg, 0o755)
			}
			s.protect(t)
			s.done(t, "/usr/bin/ralph", true, "--source", s.root+"/checkout")
			want := strings.ReplaceAll("\n"+tc.log, "\n", "\nnoninteractive -q -o DPkg::Lock::Timeout=60 ")
			assert.Equal(t, "\n"+s.read(t, "apt.log")+"noninteractive -q -o DPkg::Lock::Timeout=60 ", want)
		})
	}
}

func TestBootstrapNamesWhatFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, s sandbox)
		want    []string
	}{
		{"no ralph.sh", func(t *testing.T, s sandbox) {
			assert.NilError(t, os.Remove(s.root+"/checkout/ralph.sh"))
		}, []string{"/checkout has no ralph.sh", "[ralph] source"}},
		{"a broken link", func(t *testing.T, s sandbox) {
			assert.NilError(t, os.Symlink("nowhere", s.root+"/checkout/lib/broken"))
		}, []string{"reading the ralph checkout", "lib/broken"}},
		{"links in a circle", func(t *testing.T, s sandbox) {
			assert.NilError(t, os.Symlink(".", s.root+"/checkout/lib/self"))
		}, []string{"is too deep"}},
		{"no apt-get", func(t *testing.T, s sandbox) {
			s.write(t, "tools/sqlite3", newSQLite, 0o755)
		}, []string{"lacks jq, and there is no apt-get", "Use an image that has jq"}},
		{"no sudo", func(t *testing.T, s sandbox) {
			s.apt(t, "")
		}, []string{"lacks jq and sqlite3: root is needed, and there is no sudo"}},
		{"sudo asks", func(t *testing.T, s sandbox) {
			s.apt(t, "")
			s.write(t, "tools/sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n", 0o755)
		}, []string{"lacks jq and sqlite3, and installing failed", "sudo: a password is required"}},
		{"apt fails", func(t *testing.T, s sandbox) {
			s.sudo(t)
			s.apt(t, "[ $1 = update ] && exit 0; for i in 1 2 3 4 5 6 7; do echo \"E: line $i\"; done; exit 100\n")
		}, []string{"lacks jq and sqlite3, and installing failed", "exit status 100:\n  E: line 3\n", "\n  E: line 7\n"}},
		{"apt has no lists", func(t *testing.T, s sandbox) {
			s.sudo(t)
			s.apt(t, "[ $1 = update ] && { echo 'E: cannot reach'; exit 100; }; echo 'E: Unable to locate'; exit 100\n")
		}, []string{"E: cannot reach"}},
		{"sqlite3 is too old", func(t *testing.T, s sandbox) {
			s.programs(t)
			s.write(t, "tools/sqlite3", "#!/bin/sh\necho '3.34.1 2021-01-20'\n", 0o755)
		}, []string{"sqlite3 is 3.34.1, and ralph needs 3.35 or newer"}},
		{"sqlite3 is something else", func(t *testing.T, s sandbox) {
			s.programs(t)
			s.write(t, "tools/sqlite3", "#!/bin/sh\necho hello\n", 0o755)
		}, []string{`does not say its version, but "hello"`}},
		{"no way to /opt", func(t *testing.T, s sandbox) {
			s.programs(t)
		}, []string{"installing ", "/opt/ralph: root is needed, and there is no sudo"}},
		{"settings that are broken", func(t *testing.T, s sandbox) {
			s.programs(t)
			s.sudo(t)
			s.write(t, "home/.claude/settings.json", "{", 0o600)
		}, []string{"settings.json is no JSON object"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSandbox(t)
			s.checkout(t)
			tc.prepare(t, s)
			s.give(t)
			s.protect(t)
			stdout, stderr, code := s.bootstrap(t, "--source", s.root+"/checkout")
			assert.Equal(t, code, 1)
			assert.Equal(t, stdout, "")
			assert.Assert(t, strings.HasPrefix(stderr, "Error: "), stderr)
			for _, want := range tc.want {
				assert.Assert(t, cmp.Contains(stderr, want))
			}
			_, err := os.Stat(markerPath(s.home))
			assert.Assert(t, os.IsNotExist(err))
		})
	}
}

func TestParseSQLiteVersion(t *testing.T) {
	for said, want := range map[string][2]int{
		"3.40.1 2022-12-28 14:03:47 df5c\n": {3, 40}, "3.35.0": {3, 35}, "3.9 x": {3, 9}, "4.0.0": {4, 0},
	} {
		major, minor, err := parseSQLiteVersion(said)
		assert.NilError(t, err)
		assert.DeepEqual(t, [2]int{major, minor}, want)
	}
}

func FuzzParseSQLiteVersion(f *testing.F) {
	f.Add("3.40.1 2022-12-28 14:03:47 df5c253c0b3d")
	f.Add("3.35")
	f.Add("sqlite3: not found")
	f.Fuzz(func(t *testing.T, said string) {
		major, minor, err := parseSQLiteVersion(said)
		assert.Assert(t, err != nil || major >= 0 && minor >= 0 && strings.Fields(said)[0] != "")
	})
}

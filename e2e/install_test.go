//go:build unix

package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// scripts/install.sh installs and uninstalls the plugin.

func TestInstallFromBin(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	checkout := filepath.Join(in.dir, "checkout")
	assert.NilError(t, os.MkdirAll(filepath.Join(checkout, "scripts"), 0o755))
	assert.NilError(t, copyProgram(in.script, filepath.Join(checkout, "scripts", "install.sh")))
	in.script = filepath.Join(checkout, "scripts", "install.sh")
	assert.Check(t, is.Contains(in.run(t).expect(t, 1).stderr, `bin/docker-ralph is missing: run "make install"`))

	assert.NilError(t, os.Mkdir(filepath.Join(checkout, "bin"), 0o755))
	assert.NilError(t, os.Symlink(shared.plugin, filepath.Join(checkout, "bin", "docker-ralph")))
	assert.Check(t, is.Contains(in.run(t).expect(t, 0).stderr, "installed "+in.target+" ("))
	for _, folder := range []string{filepath.Dir(in.target), filepath.Dir(filepath.Dir(in.target))} {
		info, err := os.Stat(folder)
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), os.FileMode(0o700))
	}
	version := exec.Command(filepath.Join(shared.bin, "docker"), "ralph", "version")
	version.Env = in.env
	assert.Check(t, is.Contains(run(t, version).expect(t, 0).stdout, "docker-ralph"))
}

func TestInstallRelease(t *testing.T) {
	t.Parallel()
	folder := writeRelease(t, release(t, releaseName, fakePlugin))
	mux := http.NewServeMux()
	mux.Handle("/v7/", http.StripPrefix("/v7/", http.FileServer(http.Dir(folder))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, tc := range []struct{ name, from, without string }{
		{name: "folder", from: folder},
		{name: "archive", from: folder + "/" + releaseName},
		{name: "URL of a folder", from: server.URL + "/v7/"},
		{name: "URL of an archive", from: server.URL + "/v7/" + releaseName},
		{name: "without curl", from: server.URL + "/v7", without: "curl"},
		{name: "without sha256sum", from: server.URL + "/v7", without: "sha256sum"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.old(t)
			if tc.without != "" {
				in.without(t, tc.without)
			}
			res := in.run(t, "--from", tc.from).expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, "installed "+in.target+" (v7)"))
			in.installed(t, fakePlugin)
		})
	}
}

// An installer without a release beside it installs the latest one, and so does one from a pipe.
func TestInstallLatestRelease(t *testing.T) {
	t.Parallel()
	for _, piped := range []bool{false, true} {
		t.Run(fmt.Sprintf("piped %t", piped), func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.serveLatest(t, release(t, releaseName, fakePlugin))
			alone := filepath.Join(in.dir, "install.sh")
			assert.NilError(t, copyProgram(in.script, alone))
			in.script = alone
			if piped {
				in.script = filepath.Join(in.dir, "piped.sh")
				assert.NilError(t, os.WriteFile(in.script, []byte("#!/bin/sh\nbash <"+alone+"\n"), 0o755))
			}
			in.run(t).expect(t, 0)
			in.installed(t, fakePlugin)
		})
	}
}

// serveLatest has curl fetch the files of the latest release on GitHub.
func (in *installation) serveLatest(t *testing.T, files map[string]string) {
	t.Helper()
	in.put(t, "curl", fakeCurl(writeRelease(t, files)))
}

// fakeCurl copies the files of the latest release on GitHub from a folder.
func fakeCurl(folder string) string {
	return `while [ $# -gt 1 ]; do [ "$1" != -o ] || out=$2; shift; done
[ "${1%/*}" = https://github.com/docker-ralph/docker-ralph/releases/latest/download ] && cat ` + folder + `/"${1##*/}" >"$out"
`
}

func TestInstallVerifiesTheSignature(t *testing.T) {
	t.Parallel()
	unsigned := release(t, releaseName, fakePlugin)
	signed := release(t, releaseName, fakePlugin)
	signed["provenance.sigstore.json"] = "{}"
	// Both verifiers get the file and its bundle.
	const verifies = `case "$*" in *" --bundle "*/provenance.sigstore.json*/` + releaseName + `) echo Verified;; *--help) ;; *) exit 1;; esac` + "\n"
	for _, tc := range []struct {
		name, program, script string
		files                 map[string]string
		code                  int
		says                  string
	}{
		{"cosign", "cosign", verifies, signed, 0, "Verified"},
		{"gh", "gh", verifies, signed, 0, "Verified"},
		{"wrong signature", "cosign", "exit 1\n", signed, 1, releaseName + " is not signed by docker-ralph/docker-ralph/.github/workflows/release.yml: nothing was installed"},
		{"no signature", "cosign", verifies, unsigned, 1, "has no provenance.sigstore.json: nothing was installed"},
		{"no verifier", "gh", "exit 1\n", signed, 0, "signature not verified: that needs cosign or gh"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.without(t, "cosign")
			in.serveLatest(t, tc.files)
			in.put(t, tc.program, tc.script)
			in.old(t)
			res := in.run(t, "--from", "https://github.com/docker-ralph/docker-ralph/releases/latest/download").expect(t, tc.code)
			assert.Check(t, is.Contains(res.stderr, tc.says))
			in.installed(t, map[int]string{0: fakePlugin, 1: "old"}[tc.code])
		})
	}
	t.Run("a folder does not need one", func(t *testing.T) {
		t.Parallel()
		in := newInstallation(t)
		in.put(t, "cosign", verifies)
		res := in.run(t, "--from", writeRelease(t, unsigned)).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "signature not verified: "))
	})
}

// The installer of a release installs that one.
func TestInstallFromTheReleaseOfTheInstaller(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	folder := writeRelease(t, release(t, releaseName, fakePlugin))
	assert.NilError(t, copyProgram(in.script, filepath.Join(folder, "install.sh")))
	in.script = filepath.Join(folder, "install.sh")
	in.run(t).expect(t, 0)
	in.installed(t, fakePlugin)
}

// The installer of an archive installs the plugin beside it.
func TestInstallFromAnUnpackedArchive(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	folder := writeRelease(t, map[string]string{"docker-ralph": fakePlugin})
	assert.NilError(t, copyProgram(in.script, filepath.Join(folder, "install.sh")))
	in.script = filepath.Join(folder, "install.sh")
	in.run(t).expect(t, 0)
	in.installed(t, fakePlugin)
}

// The installer tries what it has installed with the Docker CLI of the user.
func TestInstallTriesThePlugin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, docker string
		code         int
		said         []string
	}{
		{"works", "exit 0\n", 0, nil},
		{"no plugins", "echo \"docker: 'ralph' is not a docker command.\" >&2; exit 1\n", 1, []string{
			"/docker does not run the plugin: docker: 'ralph' is not a docker command.", `Hint: run "docker ralph version" as `,
		}},
		{"other configuration", "[ \"$DOCKER_CONFIG\" = \"$HOME/docker\" ] && [ \"$*\" = 'ralph version' ]\n", 0, nil},
		{"snap", "", 1, []string{"/docker is a snap, which cannot read plugins in ", "Hint: install Docker Engine in place of the snap"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			if tc.docker == "" {
				in.put(t, "snap", "exit 1\n")
				bin := filepath.Join(in.dir, "bin")
				assert.NilError(t, os.Symlink(filepath.Join(bin, "snap"), filepath.Join(bin, "docker")))
			} else {
				in.put(t, "docker", tc.docker)
			}
			res := in.run(t, "--from", writeRelease(t, release(t, releaseName, fakePlugin))).expect(t, tc.code)
			assert.Check(t, is.Contains(res.stderr, "installed "+in.target))
			for _, want := range tc.said {
				assert.Check(t, is.Contains(res.stderr, want))
			}
		})
	}
}

func TestInstallErrors(t *testing.T) {
	t.Parallel()
	good := release(t, releaseName, fakePlugin)
	without := func(name string) map[string]string {
		files := release(t, releaseName, fakePlugin)
		delete(files, name)
		return files
	}
	with := func(name, content string) map[string]string {
		files := release(t, releaseName, fakePlugin)
		files[name] = content
		return files
	}
	server := httptest.NewServer(http.FileServer(http.Dir(writeRelease(t, with(releaseName, "tampered")))))
	t.Cleanup(server.Close)
	plugin := func(script string) string { return writeRelease(t, release(t, releaseName, script)) }
	for _, tc := range []struct{ name, from, says string }{
		{"tampered", writeRelease(t, with(releaseName, "tampered")), "has the SHA-256 "},
		{"tampered, by the archive", writeRelease(t, with(releaseName, "tampered")) + "/" + releaseName, "has the SHA-256 "},
		{"tampered on a server", server.URL, "has the SHA-256 "},
		{"no sums", writeRelease(t, without("SHA256SUMS")), "has no SHA256SUMS"},
		{"no sums beside the archive", writeRelease(t, without("SHA256SUMS")) + "/" + releaseName, "has no SHA256SUMS"},
		{"no sums on a server", server.URL + "/none", "/none/SHA256SUMS could not be downloaded"},
		{"empty sums", writeRelease(t, with("SHA256SUMS", "")), "has no single entry for " + releaseName},
		{"sum of another", writeRelease(t, with("SHA256SUMS", strings.ReplaceAll(good["SHA256SUMS"], releaseName, releaseName+"x"))), "has no single entry"},
		{"two sums", writeRelease(t, with("SHA256SUMS", good["SHA256SUMS"]+good["SHA256SUMS"])), "has no single entry"},
		{"no sum", writeRelease(t, with("SHA256SUMS", "  "+releaseName+"\n")), "has no single entry"},
		{"no archive of this platform", writeRelease(t, without(releaseName)), "has no " + releaseName},
		{"no archive", writeRelease(t, releaseOf(releaseName, "text")), "cannot be unpacked"},
		{"no plugin", writeRelease(t, releaseOf(releaseName, releaseArchive(t, "README.md", ""))), "has no docker-ralph"},
		{"a plugin that fails", plugin("#!/bin/sh\nexit 3\n"), "does not work as a plugin"},
		{"no program", plugin("\x7fELF"), "does not work as a plugin"},
		{"another's plugin", plugin("#!/bin/sh\necho '{\"Vendor\": \"x\"}'\n"), "does not work as a plugin"},
		{"nothing there", "/nowhere", "neither a directory nor an archive"},
		{"plain http", "http://example.com/v7", "is not secure"},
		{"plain http to a host like ours", "http://localhost.example.com/v7", "is not secure"},
		{"plain http with a user like ours", "http://localhost:80@example.com/v7", "is not secure"},
		{"ftp", "ftp://localhost/v7", "is not secure"},
		{"a query", "https://localhost/v7?x", "is not the URL of"},
		{"no value", "", "--from requires"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.old(t)
			assert.Check(t, is.Contains(in.run(t, "--from", tc.from).expect(t, 1).stderr, tc.says))
			in.installed(t, "old")
		})
	}
}

// A server of a release may lead elsewhere, but not out of https.
func TestInstallFollowsRedirectsWithinHTTPS(t *testing.T) {
	t.Parallel()
	files := http.FileServer(http.Dir(writeRelease(t, release(t, releaseName, fakePlugin))))
	plain := httptest.NewServer(files)
	t.Cleanup(plain.Close)
	mux := http.NewServeMux()
	mux.Handle("/files/", http.StripPrefix("/files/", files))
	safe := httptest.NewTLSServer(mux)
	t.Cleanup(safe.Close)
	mux.Handle("/v7/", http.StripPrefix("/v7/", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, safe.URL+"/files/"+r.URL.Path, http.StatusFound)
	})))
	mux.Handle("/out/", http.StripPrefix("/out/", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, plain.URL+"/"+r.URL.Path, http.StatusFound)
	})))
	for _, without := range []string{"wget", "curl"} {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.without(t, without)
			in.trust(t, safe)
			res := in.run(t, "--from", safe.URL+"/out").expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "/out/SHA256SUMS could not be downloaded"))
			in.run(t, "--from", safe.URL+"/v7").expect(t, 0)
			in.installed(t, fakePlugin)
		})
	}
}

// trust has curl and wget trust a server.
func (in *installation) trust(t *testing.T, server *httptest.Server) {
	t.Helper()
	authority, wgetrc := filepath.Join(in.dir, "ca.pem"), filepath.Join(in.dir, "wgetrc")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	assert.NilError(t, os.WriteFile(authority, block, 0o644))
	assert.NilError(t, os.WriteFile(wgetrc, []byte("ca_certificate = "+authority+"\n"), 0o644))
	in.env = append(in.env, "CURL_CA_BUNDLE="+authority, "WGETRC="+wgetrc)
}

func TestInstallSelectsThePlatform(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		system, machine, sysctl string
		name, says              string
	}{
		{"Linux", "x86_64", "", "docker-ralph-linux-amd64", ""},
		{"Linux", "aarch64", "", "docker-ralph-linux-arm64", ""},
		{"Darwin", "arm64", "1", "docker-ralph-darwin-arm64", ""},
		{"Darwin", "x86_64", "0", "docker-ralph-darwin-amd64", ""},
		{"Darwin", "x86_64", "1", "docker-ralph-darwin-arm64", ""},
		{"Linux", "riscv64", "", "none", "unsupported architecture riscv64"},
		{"FreeBSD", "amd64", "", "none", "unsupported operating system FreeBSD"},
	} {
		t.Run(tc.system+"/"+tc.machine+tc.sysctl, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t)
			in.put(t, "uname", "case $1 in -s) echo "+tc.system+";; -m) echo "+tc.machine+";; esac\n")
			in.put(t, "sysctl", "[ -n \""+tc.sysctl+"\" ] && echo "+tc.sysctl+"\n")
			from := writeRelease(t, release(t, tc.name+".tar.gz", fakePlugin))
			if tc.says != "" {
				assert.Check(t, is.Contains(in.run(t, "--from="+from).expect(t, 1).stderr, tc.says))
				return
			}
			in.run(t, "--from="+from).expect(t, 0)
			in.installed(t, fakePlugin)
		})
	}
}

// Under sudo the plugin is that user's, not root's.
func TestInstallUnderSudo(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can be root for somebody else")
	}
	nobody, err := user.Lookup("nobody")
	assert.NilError(t, err)
	in := newInstallation(t)
	in.env = append(in.env, "SUDO_USER=nobody")
	in.run(t, "--from", writeRelease(t, release(t, releaseName, fakePlugin))).expect(t, 0)
	in.installed(t, fakePlugin)
	for _, path := range []string{in.target, filepath.Dir(in.target)} {
		info, err := os.Stat(path)
		assert.NilError(t, err)
		st, ok := info.Sys().(*syscall.Stat_t)
		assert.Assert(t, ok)
		assert.Equal(t, fmt.Sprint(st.Uid), nobody.Uid)
		assert.Equal(t, fmt.Sprint(st.Gid), nobody.Gid)
	}
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	in.old(t)
	state := filepath.Join(in.dir, "docker", "ralph", "config.toml")
	assert.NilError(t, os.Mkdir(filepath.Dir(state), 0o755))
	assert.NilError(t, os.WriteFile(state, nil, 0o644))
	assert.Check(t, is.Contains(in.run(t, "--uninstall", "--from", "x").expect(t, 1).stderr, "cannot be used together"))
	in.installed(t, "old")
	for _, says := range []string{"removed " + in.target, "docker-ralph is not installed in " + filepath.Dir(in.target)} {
		said := in.run(t, "--uninstall").expect(t, 0).stderr
		for _, words := range []string{
			says, "docker ralph clean --all --force", "docker ralph system prune --all", "docker volume rm ralph-guest",
			"docker network rm ralph-egress", `docker image rm $(docker image ls --quiet "docker-ralph/*")`, `rm -r "` + filepath.Dir(state) + `"`,
		} {
			assert.Check(t, is.Contains(said, words))
		}
		_, err := os.Lstat(in.target)
		assert.Check(t, os.IsNotExist(err))
		_, err = os.Stat(state)
		assert.NilError(t, err)
	}
}

// What is in the way is not written into.
func TestInstallKeepsADirectory(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	assert.NilError(t, os.MkdirAll(in.target, 0o755))
	for _, args := range [][]string{{"--from", writeRelease(t, release(t, releaseName, fakePlugin))}, {"--uninstall"}} {
		assert.Check(t, is.Contains(in.run(t, args...).expect(t, 1).stderr, in.target+" is a directory"))
	}
	assert.Check(t, is.Contains(in.run(t, "--help").expect(t, 0).stdout, "Usage: install.sh"))
	assert.Check(t, is.Contains(in.run(t, "--from-where").expect(t, 1).stderr, `"--from-where" is not a known option`))
}

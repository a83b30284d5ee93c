// Command release writes the files of a release: an archive for each platform, packages, an image's Dockerfile, a formula,
// an SBOM, provenance and checksums. The same programs and commit give the same bytes.
//
//	release [--nfpm PROGRAM] VERSION SHARE BIN DIST PLATFORM...
//
// SHARE has man pages and completions, BIN the plugin of each platform as docker-ralph-PLATFORM.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const repository = "https://github.com/docker-ralph/docker-ralph"

// release is what its files are made from. Paths are relative to the checkout.
type release struct {
	version   string // as the plugin prints it
	commit    string
	date      time.Time // of the commit
	share     string
	bin       string
	dist      string
	nfpm      string // empty: no packages
	platforms []string
}

func main() {
	nfpm := flag.String("nfpm", "", "`program` that makes packages")
	flag.Parse()
	if err := run(*nfpm, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(nfpm string, args []string) error {
	if len(args) < 5 {
		return errors.New("usage: release [--nfpm PROGRAM] VERSION SHARE BIN DIST PLATFORM [PLATFORM]")
	}
	commit, date, err := head()
	if err != nil {
		return err
	}
	r := release{
		version: args[0], commit: commit, date: date,
		share: args[1], bin: args[2], dist: args[3], nfpm: nfpm, platforms: args[4:],
	}
	return r.write()
}

// head returns the commit that is checked out, and its date.
func head() (commit string, date time.Time, err error) {
	out, err := output("git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return "", date, err
	}
	commit, seconds, _ := strings.Cut(out, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	return commit, time.Unix(unix, 0).UTC(), err
}

func (r *release) write() error {
	if err := os.MkdirAll(r.dist, 0o755); err != nil {
		return err
	}
	modules, err := r.modules()
	if err != nil {
		return err
	}
	for _, platform := range r.platforms {
		if err := os.WriteFile(r.notices(platform), notices(modules[platform]), 0o644); err != nil {
			return err
		}
		if err := r.archive(platform); err != nil {
			return fmt.Errorf("archiving %s: %w", platform, err)
		}
		if arch, linux := strings.CutPrefix(platform, "linux-"); linux && r.nfpm != "" {
			if err := r.packages(arch); err != nil {
				return err
			}
		}
	}
	// Checksums come last: nothing is installed without them.
	for _, step := range []struct {
		name    string
		content func() ([]byte, error)
	}{
		{"docker-ralph.spdx.json", func() ([]byte, error) { return r.sbom(modules[""]) }},
		{"docker-ralph.rb", r.formula},
		{"install.sh", func() ([]byte, error) { return os.ReadFile("scripts/install.sh") }},
		{"Dockerfile", func() ([]byte, error) { return os.ReadFile("scripts/release/Dockerfile") }},
		{"provenance.json", r.provenance},
		{"SHA256SUMS", r.checksums},
	} {
		content, err := step.content()
		if err != nil {
			return fmt.Errorf("making %s: %w", step.name, err)
		}
		if err := os.WriteFile(filepath.Join(r.dist, step.name), content, 0o644); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(r.dist, "install.sh"), 0o755)
}

// plugin returns the path of a platform's program.
func (r *release) plugin(platform string) string {
	path := filepath.Join(r.bin, "docker-ralph-"+platform)
	if strings.HasPrefix(platform, "windows-") {
		path += ".exe"
	}
	return path
}

// notices returns the path of a platform's notices.
func (r *release) notices(platform string) string {
	return filepath.Join(r.bin, noticesName+"-"+platform)
}

// packages makes a deb and an rpm for Linux.
func (r *release) packages(arch string) error {
	for _, packager := range []string{"deb", "rpm"} {
		cmd := exec.Command(r.nfpm, "package", "--config", "scripts/release/nfpm.yaml", "--packager", packager, "--target", r.dist) //nolint:noctx // ends with make
		cmd.Env = append(os.Environ(), "ARCH="+arch, "VERSION="+r.packageVersion(), "SHARE="+r.share, "BIN="+r.bin,
			fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("making the %s of linux-%s: %w: %s", packager, arch, err, out)
		}
	}
	return nil
}

// packageVersion returns the version without "v". That of a commit before the first tag is lower than all others.
func (r *release) packageVersion() string {
	if plain, tagged := strings.CutPrefix(r.version, "v"); tagged {
		return plain
	}
	return "0.0.0-" + r.version
}

// checksums returns the sums of all files in dist, as sha256sum prints them.
func (r *release) checksums() ([]byte, error) {
	files, err := r.digests()
	var b bytes.Buffer
	for _, f := range files {
		_, _ = fmt.Fprintf(&b, "%s  %s\n", f.sha256, f.name)
	}
	return b.Bytes(), err
}

type digest struct{ name, sha256 string }

// digests returns the files in dist, sorted by name.
func (r *release) digests() ([]digest, error) {
	names, err := fs.Glob(os.DirFS(r.dist), "*")
	if err != nil {
		return nil, err
	}
	var all []digest
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.dist, name))
		if err != nil {
			return nil, err
		}
		all = append(all, digest{name, fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	return all, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...) //nolint:noctx // ends with make
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}

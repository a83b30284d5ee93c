package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// TestMain runs the tests in the root of the checkout, where the command runs.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// write makes a release for Linux with a small program as the plugin.
func write(t *testing.T) (dist string) {
	t.Helper()
	dir := t.TempDir()
	bin, share, dist := filepath.Join(dir, "bin"), filepath.Join(dir, "share"), filepath.Join(dir, "dist")
	assert.NilError(t, errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(filepath.Join(share, "man", "man1"), 0o755)))
	assert.NilError(t, os.WriteFile(filepath.Join(share, "man", "man1", "docker-ralph.1"), []byte(".TH\n"), 0o600))
	_, err := output("go", "build", "-o", filepath.Join(bin, "docker-ralph-linux-amd64"), "./scripts/pack")
	assert.NilError(t, err)
	assert.NilError(t, run("", []string{"v1.2.3", share, bin, dist, "linux-amd64"}))
	return dist
}

func TestRelease(t *testing.T) {
	dist := write(t)
	for name, test := range map[string]func(t *testing.T, dist string){
		"same bytes again": sameBytesAgain,
		"archive":          archiveHasProgramLicencesAndManPages,
		"notices and SBOM": noticesAndSBOMNameEachModule,
		"provenance":       provenanceNamesTheCommit,
		"formula":          formulaHasTheSumsOfTheArchives,
	} {
		t.Run(name, func(t *testing.T) { test(t, dist) })
	}
}

// sums returns SHA256SUMS by name of the file.
func sums(t *testing.T, dist string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	assert.NilError(t, err)
	byName := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		byName[name] = sum
	}
	return byName
}

func sameBytesAgain(t *testing.T, dist string) {
	first := sums(t, dist)
	assert.DeepEqual(t, first, sums(t, write(t)))
	assert.DeepEqual(t, slices.Sorted(maps.Keys(first)), []string{
		"Dockerfile", "docker-ralph-linux-amd64.tar.gz", "docker-ralph.rb", "docker-ralph.spdx.json", "install.sh", "provenance.json",
	})
}

func archiveHasProgramLicencesAndManPages(t *testing.T, dist string) {
	file, err := os.Open(filepath.Join(dist, "docker-ralph-linux-amd64.tar.gz"))
	assert.NilError(t, err)
	defer func() { assert.Check(t, file.Close()) }()
	unzipped, err := gzip.NewReader(file)
	assert.NilError(t, err)
	var names, programs []string
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		assert.NilError(t, err)
		names = append(names, strings.TrimPrefix(header.Name, "docker-ralph-linux-amd64/"))
		if header.Mode == 0o755 {
			programs = append(programs, names[len(names)-1])
		}
	}
	assert.DeepEqual(t, names, []string{"docker-ralph", "LICENSE", "THIRD_PARTY_NOTICES", "README.md", "install.sh", "man/man1/docker-ralph.1"})
	assert.DeepEqual(t, programs, []string{"docker-ralph", "install.sh"})
}

func noticesAndSBOMNameEachModule(t *testing.T, dist string) {
	notices, err := os.ReadFile(filepath.Join(filepath.Dir(dist), "bin", noticesName+"-linux-amd64"))
	assert.NilError(t, err)
	content, err := os.ReadFile(filepath.Join(dist, "docker-ralph.spdx.json"))
	assert.NilError(t, err)
	var sbom struct {
		Packages []struct {
			Name, VersionInfo, LicenseDeclared string
		}
	}
	assert.NilError(t, json.Unmarshal(content, &sbom))
	licenses := map[string]string{}
	for _, p := range sbom.Packages {
		licenses[p.Name] = p.LicenseDeclared
		assert.Check(t, p.Name == "docker-ralph" || strings.Contains(string(notices), "\n"+p.Name+" "+p.VersionInfo+"\n"), p.Name)
	}
	assert.Check(t, is.Equal(licenses["std"], "BSD-3-Clause"))
	assert.Check(t, is.Equal(licenses["github.com/klauspost/compress"], "Apache-2.0 AND BSD-3-Clause AND MIT"))
	assert.Check(t, strings.Contains(string(notices), "Copyright 2009 The Go Authors."))
}

func TestModuleWithoutLicenceIsAnError(t *testing.T) {
	m, dir := module{path: "example.com/m"}, t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("All rights reserved.\n"), 0o600))
	assert.Check(t, is.ErrorContains(m.readLicenses(dir), "no known licence in "+dir))
}

func provenanceNamesTheCommit(t *testing.T, dist string) {
	content, err := os.ReadFile(filepath.Join(dist, "provenance.json"))
	assert.NilError(t, err)
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	assert.NilError(t, json.Unmarshal(content, &statement))
	commit, err := output("git", "rev-parse", "HEAD")
	assert.NilError(t, err)
	assert.Equal(t, statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"], commit)
	listed := sums(t, dist)
	delete(listed, "provenance.json")
	subjects := map[string]string{}
	for _, s := range statement.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	assert.DeepEqual(t, subjects, listed)
}

func formulaHasTheSumsOfTheArchives(t *testing.T, dist string) {
	formula, err := os.ReadFile(filepath.Join(dist, "docker-ralph.rb"))
	assert.NilError(t, err)
	sum := sums(t, dist)["docker-ralph-linux-amd64.tar.gz"]
	assert.Check(t, is.Contains(string(formula), "releases/download/v1.2.3/docker-ralph-linux-amd64.tar.gz\"\n      sha256 \""+sum+"\""))
	assert.Check(t, is.Contains(string(formula), `version "1.2.3"`))
}

func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]string{"v0.1.0": "0.1.0", "v0.1.0-3-gabc": "0.1.0-3-gabc", "938014ef": "0.0.0-938014ef"} {
		assert.Check(t, is.Equal((&release{version: version}).packageVersion(), want))
	}
}

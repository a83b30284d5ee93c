package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

const noticesName = "THIRD_PARTY_NOTICES"

// module is a Go module that is linked into a program of the release, or the standard library.
type module struct {
	path, version string
	license       string // SPDX expression
	texts         []string
}

// modules returns the modules in the build information of each platform's plugin, and of the programs that it embeds.
// Those of the platform "" are all of them.
func (r *release) modules() (map[string][]module, error) {
	embedded, err := filepath.Glob(filepath.Join(r.bin, "linux-*", "*"))
	if err != nil {
		return nil, err
	}
	versions := map[string]map[string]string{"": {}}
	for _, platform := range r.platforms {
		versions[platform] = map[string]string{}
		for _, program := range append(embedded, r.plugin(platform)) {
			if err := addVersions(versions[platform], program); err != nil {
				return nil, fmt.Errorf("reading the modules of %s: %w", program, err)
			}
		}
		maps.Copy(versions[""], versions[platform])
	}
	folders, err := moduleFolders(versions[""])
	if err != nil {
		return nil, err
	}
	modules := map[string][]module{}
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		m := module{path: path, version: versions[""][path]}
		if err := m.readLicenses(folders[path]); err != nil {
			return nil, fmt.Errorf("licence of %s: %w", path, err)
		}
		for platform := range versions {
			if versions[platform][path] != "" {
				modules[platform] = append(modules[platform], m)
			}
		}
	}
	return modules, nil
}

func addVersions(versions map[string]string, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	versions["std"] = strings.TrimPrefix(info.GoVersion, "go")
	for _, dep := range info.Deps {
		versions[dep.Path] = dep.Version
	}
	return nil
}

// moduleFolders returns where the sources of modules are.
func moduleFolders(versions map[string]string) (map[string]string, error) {
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"std": root}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Dir}}"}
	for path := range versions {
		if path != "std" {
			args = append(args, path)
		}
	}
	listed, err := output("go", args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(listed) {
		path, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		folders[path] = folder
	}
	return folders, nil
}

var (
	licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-.].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents)(\.(txt|md))?$`)
)

// readLicenses reads the licence files of a module, and those of code that it has copied.
func (m *module) readLicenses(folder string) error {
	var ids []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && path != folder && (m.path == "std" || d.Name() == "testdata" || d.Name() == "vendor") {
				return fs.SkipDir
			}
			return err
		}
		license := licenseFile.MatchString(d.Name()) && filepath.Ext(path) != ".go"
		if !license && !noticeFile.MatchString(d.Name()) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m.texts = append(m.texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
		if license && filepath.Dir(path) == folder {
			for _, match := range licensecheck.Scan(text).Match {
				ids = append(ids, match.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("no known licence in %s", folder)
	}
	slices.Sort(ids)
	m.license = strings.Join(slices.Compact(ids), " AND ")
	return nil
}

// notices returns each licence text once, with the modules that have it.
func notices(modules []module) []byte {
	var texts []string
	users := map[string][]string{}
	for _, m := range modules {
		for _, text := range m.texts {
			if users[text] == nil {
				texts = append(texts, text)
			}
			if name := m.path + " " + m.version; !slices.Contains(users[text], name) {
				users[text] = append(users[text], name)
			}
		}
	}
	var b bytes.Buffer
	b.WriteString("docker-ralph contains the following software of third parties.\n")
	for _, text := range texts {
		_, _ = fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return b.Bytes()
}

// sbom returns the modules as SPDX 2.3.
func (r *release) sbom(modules []module) ([]byte, error) {
	type object = map[string]any
	const root = "SPDXRef-docker-ralph"
	pkg := func(id, name, version, license, purl string) object {
		return object{
			"SPDXID": id, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
			"licenseConcluded": "NOASSERTION", "licenseDeclared": license, "copyrightText": "NOASSERTION",
			"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}},
		}
	}
	module := strings.TrimPrefix(repository, "https://")
	packages := []object{pkg(root, "docker-ralph", r.version, "Apache-2.0", "pkg:golang/"+module+"@"+r.version)}
	relationships := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": root}}
	for _, m := range modules {
		id := "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.]+`).ReplaceAllString(m.path, "-")
		packages = append(packages, pkg(id, m.path, m.version, m.license, "pkg:golang/"+m.path+"@"+m.version))
		relationships = append(relationships, object{"spdxElementId": root, "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id})
	}
	return indented(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "docker-ralph " + r.version,
		"documentNamespace": repository + "/spdx/" + r.version + "/" + r.commit,
		"creationInfo":      object{"created": r.date.Format("2006-01-02T15:04:05Z"), "creators": []string{"Tool: docker-ralph-release"}},
		"packages":          packages, "relationships": relationships,
	})
}

func indented(v any) ([]byte, error) {
	content, err := json.MarshalIndent(v, "", "  ")
	return append(content, '\n'), err
}

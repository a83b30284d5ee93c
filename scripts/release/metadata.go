package main

import (
	"bytes"
	_ "embed"
	"runtime"
	"slices"
	"strings"
	"text/template"
)

// provenance returns an in-toto statement about the files in dist. The release workflow has its own signed.
func (r *release) provenance() ([]byte, error) {
	type object = map[string]any
	files, err := r.digests()
	if err != nil {
		return nil, err
	}
	subjects := make([]object, len(files))
	for i, f := range files {
		subjects[i] = object{"name": f.name, "digest": object{"sha256": f.sha256}}
	}
	makefile := repository + "/blob/" + r.commit + "/Makefile"
	return indented(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          makefile,
				"externalParameters": object{"target": "dist", "version": r.version, "platforms": r.platforms},
				"resolvedDependencies": []object{
					{"uri": "git+" + repository, "digest": object{"gitCommit": r.commit}},
					{"uri": "pkg:golang/toolchain@" + strings.TrimPrefix(runtime.Version(), "go")},
				},
			},
			"runDetails": object{"builder": object{"id": makefile}},
		},
	})
}

//go:embed formula.rb.tmpl
var formulaTemplate string

// formula returns the Homebrew formula of the archives.
func (r *release) formula() ([]byte, error) {
	files, err := r.digests()
	if err != nil {
		return nil, err
	}
	sha256 := func(platform string) string {
		i := slices.IndexFunc(files, func(f digest) bool { return f.name == "docker-ralph-"+platform+".tar.gz" })
		if i < 0 {
			return ""
		}
		return files[i].sha256
	}
	parsed, err := template.New("formula").Funcs(template.FuncMap{"sha256": sha256}).Parse(formulaTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, map[string]string{"Version": r.packageVersion(), "URL": repository + "/releases/download/" + r.version})
	return b.Bytes(), err
}

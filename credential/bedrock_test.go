package credential

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/skip"

	"github.com/docker-ralph/docker-ralph/hint"
)

// lookup returns a lookup function for pairs of names and values.
func lookup(pairs ...string) func(string) (string, bool) {
	env := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

// write creates a file in .claude, unless text is empty.
func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, ".claude", name)
	if text != "" {
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return path
}

// Active reports whether anything switches Bedrock on.
func (b Bedrock) Active() (bool, error) {
	origin, err := b.Origin()
	return origin.Name != "", err
}

func TestBedrockOrigin(t *testing.T) {
	const on, off, number = `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}`, `{"env":{"CLAUDE_CODE_USE_BEDROCK":"0"}}`, `{"env":{"CLAUDE_CODE_USE_BEDROCK":1}}`
	for _, tc := range []struct {
		name, env, local, project, user string
		want                            string // where
	}{
		{"nothing", "", "", "", "", ""},
		{"environment", "1", "", "", "", "environment"},
		{"environment and files", "1", on, on, on, "environment"},
		{"environment against files", "0", on, on, on, ""},
		{"another value", "true", "", "", "", ""},
		{"another value against files", "true", on, "", "", ""},
		{"local", "", on, "", "", "local"},
		{"project", "", "", on, "", "project"},
		{"user", "", "", "", number, "user"},
		{"an earlier file cannot switch off", "", off, "", on, "user"},
		{"nor can a later one", "", on, off, off, "local"},
		{"the user is named before the repository", "", on, on, on, "user"},
		{"malformed", "", "{", "[]", `{"env":[]}`, ""},
		{"a malformed file is ignored", "", "{", on, "null", "project"},
		{"true is not 1", "", `{"env":{"CLAUDE_CODE_USE_BEDROCK":true}}`, "", "", ""},
		{"outside of env", "", `{"CLAUDE_CODE_USE_BEDROCK":"1"}`, "", "", ""},
		{"too large", "", strings.Repeat(" ", settingsLimit) + on, "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, home := t.TempDir(), t.TempDir()
			paths := map[string]string{
				"environment": bedrockSwitch,
				"local":       write(t, root, "settings.local.json", tc.local),
				"project":     write(t, root, "settings.json", tc.project),
				"user":        write(t, home, "settings.json", tc.user),
			}
			b := Bedrock{LookupEnv: lookup(bedrockSwitch, tc.env), Home: home, Root: root}
			active, err := b.Active()
			assert.NilError(t, err)
			assert.Equal(t, active, tc.want != "")
			origin, err := b.Origin()
			assert.NilError(t, err)
			assert.DeepEqual(t, origin, Origin{Name: paths[tc.want], Repository: tc.want == "local" || tc.want == "project"})
		})
	}
}

func TestSettingsMustBeRegularFiles(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	assert.NilError(t, os.MkdirAll(write(t, home, "settings.json", ""), 0o700))
	assert.NilError(t, os.MkdirAll(filepath.Join(root, ".claude"), 0o700))
	assert.NilError(t, os.Symlink("settings.json", filepath.Join(root, ".claude", "settings.json")))
	active, err := Bedrock{LookupEnv: lookup(), Home: home, Root: root}.Active()
	assert.NilError(t, err)
	assert.Assert(t, !active)
}

func TestSettingsInTheCurrentDirectoryAreIgnored(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", "settings.json", `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}`)
	active, err := Bedrock{LookupEnv: lookup()}.Active()
	assert.NilError(t, err)
	assert.Assert(t, !active, "without Home and Root there is no place to look")
	_, err = Bedrock{LookupEnv: lookup(), Home: "."}.Active()
	assert.ErrorContains(t, err, `settings in ".": not an absolute path`)
	active, err = Bedrock{LookupEnv: lookup(bedrockSwitch, "1"), Home: "."}.Active()
	assert.NilError(t, err)
	assert.Assert(t, active, "the environment decides before any place is looked at")
}

func TestEnvironmentWithoutTheAWSProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tc := range []struct {
		name string
		env  []string
		want []string
		err  string
	}{
		{
			name: "temporary keys",
			env:  []string{keyID, "AKIA", keySecret, "s3cret", keyToken, "t0ken", "AWS_DEFAULT_REGION", "eu-west-1"},
			want: []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=s3cret", "AWS_SESSION_TOKEN=t0ken", "AWS_DEFAULT_REGION=eu-west-1", "AWS_REGION=eu-west-1"},
		},
		{
			name: "long-lived keys, and the other name of the region",
			env:  []string{keyID, "AKIA", keySecret, "s3cret", "AWS_REGION", "us-east-1"},
			want: []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=s3cret", "AWS_DEFAULT_REGION=us-east-1", "AWS_REGION=us-east-1"},
		},
		{
			name: "the first name of the region wins, an empty one does not count",
			env:  []string{keyID, "AKIA", keySecret, "s3cret", keyToken, "", "AWS_DEFAULT_REGION", "eu-west-1", "AWS_REGION", "us-east-1"},
			want: []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=s3cret", "AWS_DEFAULT_REGION=eu-west-1", "AWS_REGION=eu-west-1"},
		},
		{
			name: "no keys", env: []string{"AWS_DEFAULT_REGION", "eu-west-1"},
			err: "getting AWS credentials for Bedrock: the aws program was not found in PATH: install the AWS CLI version 2",
		},
		{
			name: "half of the keys", env: []string{keyID, "AKIA", "AWS_DEFAULT_REGION", "eu-west-1"},
			err: "or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
		},
		{
			name: "no region", env: []string{keyID, "AKIA", keySecret, "s3cret"},
			err: "getting the AWS region for Bedrock: the aws program was not found in PATH, and AWS_DEFAULT_REGION is not set: set it",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Bedrock{LookupEnv: lookup(tc.env...)}.Environment(t.Context())
			if tc.err != "" {
				assert.Assert(t, cmp.Contains(strings.Join(append([]string{fmt.Sprint(err)}, hint.Of(err)...), ": "), tc.err))
				assert.Assert(t, !strings.Contains(err.Error(), "s3cret"))
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func TestAWSInTheCurrentDirectoryIsNotStarted(t *testing.T) {
	skip.If(t, runtime.GOOS == "windows", "the program is a shell script")
	t.Chdir(t.TempDir())
	assert.NilError(t, os.WriteFile("aws", []byte("#!/bin/sh\necho started >>started\n"), 0o700))
	t.Setenv("PATH", ".")
	_, err := Bedrock{LookupEnv: lookup(), limit: time.Minute}.Environment(t.Context())
	assert.ErrorContains(t, err, "finding the aws program")
	_, err = os.Stat("started")
	assert.Assert(t, os.IsNotExist(err))
}

func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		`{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}`, `{"env":{"CLAUDE_CODE_USE_BEDROCK":1}}`,
		`{"env":{"CLAUDE_CODE_USE_BEDROCK":"0"}}`, `{"env":[]}`, "null", "{", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, settings []byte) {
		if wantsBedrock(settings) {
			assert.Assert(t, strings.Contains(string(settings), "1"), "nothing in it says so")
		}
	})
}

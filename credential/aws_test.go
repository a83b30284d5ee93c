package credential

import (
	"context"
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

// Values that only the result may contain.
const (
	theSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	theToken  = "IQoJb3JpZ2luX2VjEXAMPLETOKEN=="
	theID     = "ASIAIOSFODNN7EXAMPLE"
)

const (
	exported = `{
  "Version": 1,
  "AccessKeyId": "` + theID + `",
  "SecretAccessKey": "` + theSecret + `",
  "SessionToken": "` + theToken + `",
  "Expiration": "2999-01-01T00:00:00+00:00"
}`
	identity = `{"UserId": "A", "Account": "1", "Arn": "arn:aws:iam::1:user/a"}`
)

// fakeAWS is a shell script that runs the first matching of its cases and records its calls.
type fakeAWS struct{ folder string }

// newFakeAWS puts the program first in PATH. A case is a line of shell.
func newFakeAWS(t *testing.T, identity, export, region string) fakeAWS {
	t.Helper()
	skip.If(t, runtime.GOOS == "windows", "the program is a shell script")
	fake := fakeAWS{t.TempDir()}
	script := `#!/bin/sh
printf '%s\n' "$*" >>"` + fake.folder + `/calls"
printf '%s\n' "$PWD ${AWS_PROFILE-none} [${AWS_PAGER-none}]" >>"` + fake.folder + `/worlds"
case "$*" in
"sts get-caller-identity") ` + identity + ` ;;
"configure export-credentials --format process") ` + export + ` ;;
"configure get region") ` + region + ` ;;
*) echo "unexpected: $*" >&2; exit 99 ;;
esac
`
	assert.NilError(t, os.WriteFile(filepath.Join(fake.folder, "aws"), []byte(script), 0o700))
	t.Setenv("PATH", fake.folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	return fake
}

func (f fakeAWS) lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(f.folder, name))
	if os.IsNotExist(err) {
		return nil
	}
	assert.NilError(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// says returns a case that prints text and succeeds.
func says(text string) string { return "cat <<'END'\n" + text + "\nEND\n" }

// fails returns a case that prints text to stderr and exits with a code.
func fails(code, text string) string { return "cat >&2 <<'END'\n" + text + "\nEND\nexit " + code }

func hidden(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{theSecret, theToken, theID} {
		assert.Assert(t, !strings.Contains(text, secret), "a secret in %q", text)
	}
}

func TestAWSCredentials(t *testing.T) {
	whole := []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_ACCESS_KEY_ID=" + theID, "AWS_SECRET_ACCESS_KEY=" + theSecret, "AWS_SESSION_TOKEN=" + theToken, "AWS_DEFAULT_REGION=eu-west-1", "AWS_REGION=eu-west-1"}
	for _, tc := range []struct {
		name, export, region string
		env                  []string
		calls                string
	}{
		{"all of it", says(exported), says("eu-west-1"), nil, "sts get-caller-identity|configure export-credentials --format process|configure get region"},
		{"half of the keys in the environment", says(exported), says("eu-west-1"), []string{keyID, "OTHER"}, "sts get-caller-identity|configure export-credentials --format process|configure get region"},
		{"with the region of the environment", says(exported), "exit 99", []string{"AWS_REGION", "eu-west-1"}, "sts get-caller-identity|configure export-credentials --format process"},
		{"only the region", "exit 99", says("eu-west-1"), []string{keyID, theID, keySecret, theSecret, keyToken, theToken}, "configure get region"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := newFakeAWS(t, says(identity), tc.export, tc.region)
			got, err := Bedrock{LookupEnv: lookup(tc.env...)}.Environment(t.Context())
			assert.NilError(t, err)
			assert.DeepEqual(t, got, whole)
			assert.Equal(t, strings.Join(fake.lines(t, "calls"), "|"), tc.calls)
			hidden(t, strings.Join(fake.lines(t, "calls"), "|"))
		})
	}
}

func TestRepositoryCannotSetAWSProfile(t *testing.T) {
	fake := newFakeAWS(t, says(identity), says(exported), says("eu-west-1"))
	root := t.TempDir()
	t.Chdir(root)
	write(t, root, "settings.json", `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1","AWS_PROFILE":"theirs","AWS_REGION":"xx-theirs-1"}}`)
	b := Bedrock{LookupEnv: lookup(awsProfile, "mine"), Root: root, Home: t.TempDir()}
	origin, err := b.Origin()
	assert.NilError(t, err)
	assert.Assert(t, origin.Name != "")
	got, err := b.Environment(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, got[len(got)-1], "AWS_REGION=eu-west-1")
	for _, world := range fake.lines(t, "worlds") {
		assert.Equal(t, world, "/ mine []", "not in the work tree, with the user's profile, without a pager")
	}
}

func TestAWSCredentialsAreNotCached(t *testing.T) {
	fake := newFakeAWS(t, says(identity), "n=$(grep -c export-credentials \"${0%/*}/calls\"); printf '{\"AccessKeyId\":\"ID%s\",\"SecretAccessKey\":\"S\"}' \"$n\"", says("eu-west-1"))
	b := Bedrock{LookupEnv: lookup(), AWS: filepath.Join(fake.folder, "aws")}
	for _, want := range []string{"AWS_ACCESS_KEY_ID=ID1", "AWS_ACCESS_KEY_ID=ID2"} {
		got, err := b.Environment(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, got[1], want)
	}
}

func TestAWSFailures(t *testing.T) {
	const tooOld = "usage: aws [options] <command> <subcommand> [<subcommand> ...] [parameters]\naws: error: argument subcommand: Invalid choice, valid choices are:\n\nlist                                     | get"
	good := says(identity)
	for _, tc := range []struct {
		name, identity, export, region, profile string
		want                                    string
	}{
		{"version 1", good, fails("2", tooOld), "exit 99", "", `has no "configure export-credentials": install a current AWS CLI version 2`},
		{"an old version 2", good, fails("252", "aws: error: argument operation: Invalid choice"), "exit 99", "", "install a current AWS CLI version 2"},
		{"unknown profile", fails("255", "\nThe config profile (nope) could not be found"), "exit 99", "exit 99", "nope", `aws does not know profile "nope": choose one of "aws configure list-profiles" with AWS_PROFILE`},
		{"no credentials", fails("253", `Unable to locate credentials. You can configure credentials by running "aws login".`), "exit 99", "exit 99", "", `aws has no credentials for the default profile: run "aws configure"`},
		{"no credentials to export", good, fails("253", "Unable to retrieve credentials: no credentials found"), "exit 99", "mine", `aws has no credentials for profile "mine"`},
		{"no SSO login yet", fails("255", "\nError loading SSO Token: Token for x does not exist"), "exit 99", "exit 99", "work", `the SSO session of profile "work" has expired or was never started: run "aws sso login"`},
		{"SSO refresh failed", fails("255", "Error when retrieving token from sso: Token has expired and refresh failed"), "exit 99", "exit 99", "", `run "aws sso login"`},
		{"SSO session expired", fails("255", "The SSO session associated with this profile has expired or is otherwise invalid. To refresh this SSO session run aws sso login with the corresponding profile."), "exit 99", "exit 99", "", `run "aws sso login"`},
		{"SSO token refused", good, fails("253", "Unable to retrieve credentials: An error occurred (UnauthorizedException) when calling the GetRoleCredentials operation: Session token not found or invalid"), "exit 99", "", `run "aws sso login"`},
		{"SSO role refused", good, fails("253", "Unable to retrieve credentials: An error occurred (ForbiddenException) when calling the GetRoleCredentials operation: No access"), "exit 99", "", `"aws configure export-credentials --format process" ended with exit code 253 (ForbiddenException): run it yourself`},
		{"login expired", fails("255", "Your session has expired or credentials have changed. Please reauthenticate using 'aws login'."), "exit 99", "exit 99", "", `run "aws login"`},
		{"temporary keys expired", fails("254", "An error occurred (ExpiredToken) when calling the GetCallerIdentity operation: The security token included in the request is expired"), "exit 99", "exit 99", "", "the AWS credentials of the default profile have expired"},
		{"expired at once", good, says(strings.Replace(exported, "2999", "2001", 1)), "exit 99", "", "the AWS credentials of the default profile have expired"},
		{"no network", fails("255", `Could not connect to the endpoint URL: "https://sts.eu-west-1.amazonaws.com/"`), "exit 99", "exit 99", "", "aws could not reach AWS"},
		{"anything else", fails("255", "An error occurred (Throttling) when "+theSecret), "exit 99", "exit 99", "", `"aws sts get-caller-identity" ended with exit code 255 (Throttling): run it yourself to see why`},
		{"silence", "exit 3", "exit 99", "exit 99", "", `"aws sts get-caller-identity" ended with exit code 3: run it yourself to see why`},
		{"nothing exported", good, "exit 0", "exit 99", "", "printed no credentials"},
		{"half exported", good, says(`{"AccessKeyId": "` + theID + `", "SecretAccessKey": "a b ` + theSecret + `"}`), "exit 99", "", "printed no credentials"},
		{"no region", good, says(exported), "exit 1", "", `getting the AWS region for Bedrock: the default profile has no region: run "aws configure", or set AWS_DEFAULT_REGION`},
		{"empty region", good, says(exported), "exit 0", "work", `profile "work" has no region`},
		{"odd region", good, says(exported), says("eu-west-1\n" + theSecret), "", "the default profile has no region"},
		{"region of an unknown profile", good, says(exported), fails("255", "The config profile (nope) could not be found"), "nope", `aws does not know profile "nope"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := newFakeAWS(t, tc.identity, tc.export, tc.region)
			got, err := Bedrock{LookupEnv: lookup(awsProfile, tc.profile)}.Environment(t.Context())
			text := strings.Join(append([]string{fmt.Sprint(err)}, hint.Of(err)...), ": ")
			assert.Assert(t, cmp.Contains(text, tc.want))
			assert.Equal(t, len(got), 0)
			hidden(t, text)
			hidden(t, strings.Join(fake.lines(t, "calls"), "|"))
		})
	}
}

func TestAWSTimeout(t *testing.T) {
	fake := newFakeAWS(t, "exec sleep 60", "exit 99", "exit 99")
	b := Bedrock{LookupEnv: lookup(), limit: 100 * time.Millisecond}
	_, err := b.Environment(t.Context())
	assert.ErrorContains(t, err, `"aws sts get-caller-identity" did not answer within 100ms`)
	aws, err := Bedrock{LookupEnv: lookup()}.aws()
	assert.NilError(t, err)
	assert.Equal(t, aws.limit, 30*time.Second)
	assert.Equal(t, aws.path, filepath.Join(fake.folder, "aws"))
}

func TestAWSIsCanceled(t *testing.T) {
	newFakeAWS(t, "exec sleep 60", "exit 99", "exit 99")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Bedrock{LookupEnv: lookup()}.Environment(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, `running "aws sts get-caller-identity"`)
}

func TestAWSHelperOutlivesAWS(t *testing.T) {
	newFakeAWS(t, "sleep 20 & "+says(identity), says(exported), says("eu-west-1"))
	begun := time.Now()
	_, err := Bedrock{LookupEnv: lookup()}.Environment(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, time.Since(begun) < 15*time.Second, "it waits for the helper")
}

func TestAWSCannotBeStarted(t *testing.T) {
	_, err := Bedrock{LookupEnv: lookup(), AWS: filepath.Join(t.TempDir(), "aws")}.Environment(t.Context())
	assert.ErrorContains(t, err, "getting AWS credentials for Bedrock: starting aws: ")
}

func FuzzExportedCredentials(f *testing.F) {
	for _, seed := range []string{
		exported, "notice\n" + exported, "{{" + exported,
		`{"AccessKeyId":"a","SecretAccessKey":"b\nc"}`, `{"AccessKeyId":1}`, "", "{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		keys, _, err := parseKeys(out)
		if err != nil {
			assert.Equal(t, keys, awsKeys{})
			return
		}
		for _, word := range []string{keys.id, keys.secret, keys.token} {
			assert.Assert(t, !strings.ContainsAny(word, " \t\r\n\x00"), "%q breaks the environment", word)
		}
		assert.Assert(t, keys.id != "" && keys.secret != "")
	})
}

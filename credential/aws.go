package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/docker-ralph/docker-ralph/hint"
)

const (
	keyID     = "AWS_ACCESS_KEY_ID"
	keySecret = "AWS_SECRET_ACCESS_KEY"
	keyToken  = "AWS_SESSION_TOKEN"

	awsProfile = "AWS_PROFILE"
	awsInstall = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"

	// awsLimit bounds one call of aws, which waits longer for the network.
	awsLimit = 30 * time.Second
	// awsGrace is how long children of aws may keep its output open.
	awsGrace = time.Second
)

var errNoAWS = errors.New("the aws program was not found in PATH")

// awsKeys are credentials of AWS. There is no token with long-lived keys.
type awsKeys struct{ id, secret, token string }

// awsProgram is the user's aws program.
type awsProgram struct {
	path    string
	profile string // what AWS_PROFILE says
	limit   time.Duration
}

func (b Bedrock) aws() (awsProgram, error) {
	a := awsProgram{path: b.AWS, profile: b.env(awsProfile), limit: b.limit}
	if a.limit == 0 {
		a.limit = awsLimit
	}
	if a.path != "" {
		return a, nil
	}
	path, err := exec.LookPath("aws")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return a, errNoAWS
	case err != nil: // found by a relative entry of PATH, perhaps in the worktree
		return a, fmt.Errorf("finding the aws program: %w", err)
	}
	a.path = path
	return a, nil
}

// keys returns the credentials of aws, if AWS accepts them.
func (a awsProgram) keys(ctx context.Context) (awsKeys, error) {
	if _, err := a.run(ctx, "sts", "get-caller-identity"); err != nil {
		return awsKeys{}, err
	}
	out, err := a.run(ctx, "configure", "export-credentials", "--format", "process")
	if err != nil {
		return awsKeys{}, err
	}
	keys, expires, err := parseKeys(out)
	if err != nil {
		return awsKeys{}, err
	}
	if !expires.IsZero() && time.Now().After(expires) {
		return awsKeys{}, a.expired()
	}
	return keys, nil
}

func (a awsProgram) region(ctx context.Context) (string, error) {
	out, err := a.run(ctx, "configure", "get", "region")
	failed, ok := errors.AsType[*awsError](err)
	silent := ok && failed.status == 1 && failed.said == "" // not set
	if err != nil && !silent {
		return "", err
	}
	region := strings.TrimSpace(string(out))
	if !oneWord(region) {
		return "", hint.Wrap(fmt.Errorf("%s has no region", a.who()), "run \"aws configure\", or set AWS_DEFAULT_REGION")
	}
	return region, nil
}

// awsError is a failed call of aws.
type awsError struct {
	status int
	said   string // not shown: helper programs write there too
	advice error
}

func (e *awsError) Error() string { return e.advice.Error() }
func (e *awsError) Unwrap() error { return e.advice }

// run returns the output of aws. It runs outside of the worktree, whose files can make a
// version manager start another aws.
func (a awsProgram) run(ctx context.Context, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, a.path, args...)
	cmd.Dir, cmd.WaitDelay = string(filepath.Separator), awsGrace
	cmd.Env = append(cmd.Environ(), "AWS_PAGER=", "AWS_CLI_AUTO_PROMPT=off")
	if a.profile != "" {
		cmd.Env = append(cmd.Env, awsProfile+"="+a.profile)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	command := "aws " + strings.Join(args, " ")
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("running %q: %w", command, ctx.Err())
	case limited.Err() != nil:
		return nil, hint.Wrap(fmt.Errorf("%q did not answer within %s", command, a.limit), "run it yourself; it may ask for a code, or the network may be down")
	case errors.As(err, &exit):
		failed := &awsError{status: exit.ExitCode(), said: strings.TrimSpace(stderr.String())}
		failed.advice = a.advise(command, failed.status, failed.said)
		return nil, failed
	default:
		return nil, fmt.Errorf("starting aws: %w", err)
	}
}

// advise returns an error with a hint for a failure of aws.
func (a awsProgram) advise(command string, status int, said string) error {
	words := strings.ToLower(said)
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return strings.Contains(words, s) })
	}
	switch {
	case strings.Contains(command, "export-credentials") && (has("invalid choice") || status == 252):
		return hint.Wrap(errors.New("this aws program has no \"configure export-credentials\""), "install a current AWS CLI version 2 (%s), or set %s and %s", awsInstall, keyID, keySecret)
	case has("config profile") && has("could not be found"):
		return hint.Wrap(fmt.Errorf("aws does not know %s", a.who()), "choose one of \"aws configure list-profiles\" with %s, or make it with \"aws configure\"", awsProfile)
	case has("unable to locate credentials", "no credentials found"):
		return hint.Wrap(fmt.Errorf("aws has no credentials for %s", a.who()), "run \"aws configure\" or \"aws configure sso\", or choose another profile with %s", awsProfile)
	case has("sso login", "sso token", "token from sso", "sso session"), has("getrolecredentials") && has("unauthorizedexception"):
		return hint.Wrap(fmt.Errorf("the SSO session of %s has expired or was never started", a.who()), "run \"aws sso login\"")
	case has("'aws login'", "\"aws login\"", "login session"):
		return hint.Wrap(fmt.Errorf("the login session of %s has expired", a.who()), "run \"aws login\"")
	case has("expiredtoken", "requestexpired", "token included in the request is expired"):
		return a.expired()
	case has("connect to the endpoint", "connect timeout", "read timeout", "connect to proxy", "connection was closed", "ssl validation failed"):
		return hint.Wrap(errors.New("aws could not reach AWS"), "check the network and the proxy settings")
	}
	code := ""
	if found := regexp.MustCompile(`An error occurred \(([A-Za-z]{1,40})\)`).FindStringSubmatch(said); found != nil {
		code = " (" + found[1] + ")"
	}
	return hint.Wrap(fmt.Errorf("%q ended with exit code %d%s", command, status, code), "run it yourself to see why")
}

func (a awsProgram) expired() error {
	return hint.Wrap(fmt.Errorf("the AWS credentials of %s have expired", a.who()), "renew them, with \"aws sso login\" if they come from SSO")
}

func (a awsProgram) who() string {
	if a.profile == "" {
		return "the default profile"
	}
	return fmt.Sprintf("profile %q", a.profile)
}

// parseKeys parses the JSON of "aws configure export-credentials".
func parseKeys(out []byte) (keys awsKeys, expires time.Time, err error) {
	var parsed struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string }
	err = json.Unmarshal(out, &parsed)
	keys = awsKeys{id: parsed.AccessKeyId, secret: parsed.SecretAccessKey, token: parsed.SessionToken}
	if err != nil || !oneWord(keys.id) || !oneWord(keys.secret) || keys.token != "" && !oneWord(keys.token) {
		// The error does not quote the output, which may contain a secret.
		return awsKeys{}, time.Time{}, hint.Wrap(errors.New("\"aws configure export-credentials\" printed no credentials"),
			"update the AWS CLI, or set %s and %s", keyID, keySecret)
	}
	expires, err = time.Parse(time.RFC3339, parsed.Expiration)
	if err != nil { // long-lived keys
		expires = time.Time{}
	}
	return keys, expires, nil
}

// oneWord reports whether text can be a key or a name: printable and without spaces.
func oneWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

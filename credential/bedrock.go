package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

const bedrockSwitch = "CLAUDE_CODE_USE_BEDROCK"

// settingsLimit is the size of the largest settings file that is read, in bytes.
const settingsLimit = 1 << 20

// Bedrock detects whether claude uses Amazon Bedrock, and gets the credentials for it.
type Bedrock struct {
	LookupEnv func(string) (string, bool)
	Home      string // the user's home directory; empty for none
	Root      string // the worktree; empty for none
	AWS       string // the aws program; empty for the one in PATH

	limit time.Duration // for each call of aws; 0 means awsLimit
}

// Origin is what switched Bedrock on. The zero Origin means that nothing did.
type Origin struct {
	Name       string // CLAUDE_CODE_USE_BEDROCK, or the path of a settings file
	Repository bool   // a file in the worktree
}

// Origin reports whether claude uses Bedrock, by the rule that ralph follows in the sandbox:
// if the environment is silent, any of claude's settings files can switch Bedrock on, and none
// off. Missing and invalid files are ignored. The user's own settings come first, so that the
// repository is named only if it alone asks for the user's AWS credentials.
func (b Bedrock) Origin() (Origin, error) {
	if value := b.env(bedrockSwitch); value != "" {
		if value == "1" {
			return Origin{Name: bedrockSwitch}, nil
		}
		return Origin{}, nil
	}
	for _, in := range []struct {
		dir, file  string
		repository bool
	}{
		{b.Home, "settings.json", false},
		{b.Root, "settings.local.json", true},
		{b.Root, "settings.json", true},
	} {
		if in.dir == "" {
			continue
		}
		if !filepath.IsAbs(in.dir) {
			return Origin{}, fmt.Errorf("reading Claude's settings in %q: not an absolute path", in.dir)
		}
		path := filepath.Join(in.dir, ".claude", in.file)
		if text, ok := readSmall(path); ok && wantsBedrock(text) {
			return Origin{Name: path, Repository: in.repository}, nil
		}
	}
	return Origin{}, nil
}

// Environment returns the KEY=value pairs that claude needs for Bedrock: from the environment
// if both keys are there, otherwise from the aws program. Values are secret; no error contains
// one.
func (b Bedrock) Environment(ctx context.Context) ([]string, error) {
	keys, err := b.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting AWS credentials for Bedrock: %w", err)
	}
	region, err := b.region(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting the AWS region for Bedrock: %w", err)
	}
	env := []string{
		bedrockSwitch + "=1",
		keyID + "=" + keys.id,
		keySecret + "=" + keys.secret,
	}
	if keys.token != "" {
		env = append(env, keyToken+"="+keys.token)
	}
	// Claude reads the second one (Anthropic's documentation of Bedrock).
	return append(env, "AWS_DEFAULT_REGION="+region, "AWS_REGION="+region), nil
}

func (b Bedrock) keys(ctx context.Context) (awsKeys, error) {
	own := awsKeys{id: b.env(keyID), secret: b.env(keySecret), token: b.env(keyToken)}
	if own.id != "" && own.secret != "" {
		return own, nil
	}
	aws, err := b.aws()
	if errors.Is(err, errNoAWS) {
		return awsKeys{}, hint.Wrap(err, "install the AWS CLI version 2 (%s), or set %s and %s", awsInstall, keyID, keySecret)
	}
	if err != nil {
		return awsKeys{}, err
	}
	return aws.keys(ctx)
}

func (b Bedrock) region(ctx context.Context) (string, error) {
	for _, name := range []string{"AWS_DEFAULT_REGION", "AWS_REGION"} {
		if region := b.env(name); region != "" {
			return region, nil
		}
	}
	aws, err := b.aws()
	if errors.Is(err, errNoAWS) {
		return "", hint.Wrap(fmt.Errorf("%w, and AWS_DEFAULT_REGION is not set", err), "set it to the region whose models you use")
	}
	if err != nil {
		return "", err
	}
	return aws.region(ctx)
}

func (b Bedrock) env(name string) string {
	value, _ := b.LookupEnv(name)
	return value
}

// readSmall reads a file, if it is one and not larger than settingsLimit.
func readSmall(path string) (content []byte, ok bool) {
	// O_NONBLOCK, because opening a named pipe blocks.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > settingsLimit {
		return nil, false
	}
	content, err = io.ReadAll(io.LimitReader(f, settingsLimit))
	return content, err == nil
}

func wantsBedrock(settings []byte) bool {
	var parsed struct {
		Env map[string]json.RawMessage `json:"env"`
	}
	if json.Unmarshal(settings, &parsed) != nil {
		return false
	}
	value := string(parsed.Env[bedrockSwitch])
	return value == `"1"` || value == "1"
}

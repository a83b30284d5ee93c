package plugin

import (
	"testing"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// An invalid value of any flag is reported as Docker does, before anything else is checked.
func TestInvalidValues(t *testing.T) {
	for _, tc := range []struct{ flag, value, want string }{
		{"max-duration", "-1", "must be 0 or a duration such as 90m or 1h30m, at most a year"},
		{"max-duration", "junk", "must be 0 or a duration such as 90m or 1h30m, at most a year"},
		{"max-cost-usd", "-1", "must be an amount in US dollars, such as 2.50"},
		{"max-tokens", "-1", "must be an integer between 0 and 1099511627776"},
		{"max-failures", "1.5", "must be an integer between 0 and 2147483647"},
		{"stall", "-1", "must be an integer between 0 and 2147483647"},
		{"idle", "-1", "must be 0 or a number of minutes, at most a year"},
		{"max-wait", "junk", "must be 0 or a duration such as 90m or 1h30m, at most a year"},
		{"max-wait", "", "requires a value"},
		{"max-iterations", "-1", "requires a number"},
		{"max-iterations", "junk", "requires a number"},
		{"timeout", "0", "must be between 1s and a year"},
		{"timeout", "-1s", "must be between 1s and a year"},
		{"timeout", "junk", "must be a duration such as 90m or 1h30m"},
		{"timeout", "", "must be a duration such as 90m or 1h30m"},
		{"memory", "0", "must be between 6m and 1024t"},
		{"memory", "-1", "must be a size such as 512m or 8g"},
		{"memory", "junk", "must be a size such as 512m or 8g"},
		{"memory", "", "must be a size such as 512m or 8g"},
		{"cpus", "0", "must be a number between 0.01 and 10000"},
		{"cpus", "-1", "must be a number between 0.01 and 10000"},
		{"cpus", "junk", "must be a number between 0.01 and 10000"},
		{"driver", "conainer", `did you mean "container"? (use auto, sbx, docker-sandbox or container)`},
		{"network", "junk", "use allowlist, deny or allow-all"},
		{"workspace", "", "use auto, live or clone"},
		{"git-token", "junk", "use none, read or write"},
		{"allow", "https://x/y", `must be a host such as "x", not a URL`},
		{"env", "A=b", "must be a name without a value"},
		{"agent", "../x", "use lower-case letters, digits and dashes"},
		{"image", "No Image", "invalid reference format"},
		{"progress", "junk", "use one of auto, plain, tty, quiet, rawjson"},
		{"cred-scan", "junk", "use one of block, warn"},
	} {
		t.Run(tc.flag+" "+tc.value, func(t *testing.T) {
			isInvalid(t, failing(t, "build", "--"+tc.flag+"="+tc.value), "--"+tc.flag, tc.value, tc.want)
			own := pflag.NewFlagSet("", pflag.ContinueOnError)
			if (&options{}).addFlags(own); own.Lookup(tc.flag) != nil {
				isInvalid(t, failing(t, "--"+tc.flag+"="+tc.value, "shell"), "--"+tc.flag, tc.value, tc.want)
			}
		})
	}
	isInvalid(t, failing(t, "plan", "-n", "0"), "-n, --max-iterations", "0", "plan mode requires at least 1 iteration (-n 0 is not allowed)")
}

func isInvalid(t *testing.T, err error, flag, value, want string) {
	t.Helper()
	status, ok := err.(cli.StatusError) //nolint:errorlint // the type that main expects
	assert.Assert(t, ok, "%v", err)
	assert.Check(t, is.Equal(status.StatusCode, flagExitCode))
	assert.Check(t, is.Contains(err.Error(), want))
	assert.Check(t, is.Contains(err.Error(), `invalid argument "`+value+`" for "`))
	assert.Check(t, is.Contains(err.Error(), flag+`" flag: `))
}

func TestNegativeStopTimeoutIsNone(t *testing.T) {
	assert.Assert(t, stopTimeout(-1) == nil)
	assert.Equal(t, *stopTimeout(0), time.Duration(0))
	assert.Equal(t, *stopTimeout(300), 5*time.Minute)
}

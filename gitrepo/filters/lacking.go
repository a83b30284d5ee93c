package filters

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Lacking returns a function that reports whether a filter is the user's, and cannot run here. The host leaves a
// section without programs for each filter of the user. Another filter would not run on the host either; what a
// known one has encoded is recognized.
func Lacking(ctx context.Context, g gitrepo.Git) (func(filter string) bool, error) {
	out, err := output(ctx, g, "", "config", "--null", "--get-regexp", `^filter\.`)
	if err != nil && !gitrepo.SaysNo(err) {
		return nil, fmt.Errorf("listing git's filters: %w", err)
	}
	configured, runs := map[string]bool{}, map[string]bool{}
	for setting := range strings.SplitSeq(out, "\x00") {
		key, value, _ := strings.Cut(setting, "\n")
		name := strings.TrimPrefix(key[:max(0, strings.LastIndex(key, "."))], "filter.")
		configured[name] = true
		if value != "" && (strings.HasSuffix(key, ".clean") || strings.HasSuffix(key, ".process")) {
			runs[name] = true
		}
	}
	return func(filter string) bool { return Known(filter) || configured[filter] && !runs[filter] }, nil
}

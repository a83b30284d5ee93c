package top

import (
	"cmp"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// group is the rank of a sandbox: problems come first.
func group(s manage.SandboxStatus) int {
	if len(s.Questions) > 0 {
		return 0
	}
	ranked := []manage.Activity{
		manage.NeedsAnswer, manage.Failed, manage.Unknown, manage.Paused, manage.Retrying, manage.RateLimited,
		manage.Working, manage.Waiting, manage.Ended, manage.Idle,
	}
	a := s.Activity
	if a == manage.Checking {
		a = manage.Working
	}
	if i := slices.Index(ranked, a); i >= 0 {
		return i
	}
	return len(ranked)
}

// needsUser reports whether a sandbox waits for the user.
func needsUser(s manage.SandboxStatus) bool {
	return len(s.Questions) > 0 || s.Activity == manage.NeedsAnswer || s.Activity == manage.Failed
}

// arrange orders new states by rank. Within a rank, the order stays; a sandbox that enters it comes last.
func arrange(before, list []manage.SandboxStatus, rank func(manage.SandboxStatus) int) []manage.SandboxStatus {
	ranks, position := map[string]int{}, map[string]int{}
	for i, s := range list {
		ranks[s.Name], position[s.Name] = rank(s), len(before)+i
	}
	for i, s := range before {
		if now, listed := ranks[s.Name]; listed && now == rank(s) {
			position[s.Name] = i
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b manage.SandboxStatus) int {
		return cmp.Or(cmp.Compare(ranks[a.Name], ranks[b.Name]), cmp.Compare(position[a.Name], position[b.Name]))
	})
	return list
}

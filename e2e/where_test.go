//go:build unix

package e2e

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// onEveryEngine lists the tests of what engines do differently: namespaces,
// firewalls, cgroups, seccomp, builds, pulls, terminals and restarts. Each other test
// runs on one engine, chosen by a hash of its name.
var onEveryEngine = []string{
	"TestUnpullableBaseIsReportedWithAHint",
	"TestAbuse",
	"TestAbuseOnGVisor",
	"TestChangedHostProxyIsUsedAfterAStop",
	"TestLoopSurvivesUsedUpMemoryAndProcesses",
	"TestNetworkPolicy",
	"TestEngineRestart",
	"TestEndedProxyIsReported",
	"TestLoopSurvivesAFullMemory",
	"TestIsolationSurvivesInterference",
	"TestBuildSecretIsOnlyInItsStep",
	"TestBuildTurnsThreeTasksIntoCommits",
	"TestCommitsArriveOnTheUsersBranch",
	"TestDetachKeysLeaveTheLoopRunning",
	"TestFullSandboxIsRestarted",
	"TestImagesArePulledWithDockersCredentials",
	"TestLimitsAreSetAndChanged",
	"TestProxyAndNetworkAreRemovedWithTheSandbox",
	"TestClaudePlansAndBuilds",
	"TestRootCreatesFilesOfTheRepositoryOwner",
	"TestRunAtATerminal",
	"TestStoppedOrRemovedSandboxIsStartedOrRecreated",
	"TestSelfTest",
	"TestProjectImageFromBuildToPrune",
	"TestPackageCachesAreSharedByWorktrees",
	"TestProjectImage",
	"TestUpgradeReplacesRalphInTheSandbox",
}

// enginesFor returns the engines that a test runs on.
func enginesFor(t *testing.T) []engines.Engine {
	t.Helper()
	return chosenFor(t, engines.Need(t))
}

// remoteEnginesFor returns the remote engines that a test runs on.
func remoteEnginesFor(t *testing.T) []engines.Engine {
	t.Helper()
	return chosenFor(t, engines.NeedRemote(t))
}

func chosenFor(t *testing.T, all []engines.Engine) []engines.Engine {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if len(all) == 1 || slices.Contains(onEveryEngine, name) {
		return all
	}
	i := (hashOf(name) >> 1) % len(all)
	return all[i : i+1]
}

// hashOf chooses where a test runs.
func hashOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash takes everything
	return int(h.Sum32())
}

// engineAfter returns the engine that is n engines after another one in the list, which is that of the
// remote ones for these.
func engineAfter(e engines.Engine, n int) engines.Engine {
	list := engines.List()
	if e.TLS != "" {
		list = engines.ListRemote()
	}
	return list[(slices.Index(list, e)+n)%len(list)]
}

// target is an engine and a driver.
type target struct {
	engine engines.Engine
	driver string
}

// targets returns where a test runs that every driver has to pass: in a
// container on its engines, and with the fake of one microVM program, or of
// both where it runs on every engine.
func targets(t *testing.T) []target {
	t.Helper()
	on := enginesFor(t)
	var all []target
	for _, e := range on {
		all = append(all, target{e, config.DriverContainer})
	}
	if len(on) > 1 {
		for _, e := range on {
			all = append(all, target{e, microVMFor(e)})
		}
		return all
	}
	// The other engine's, so that both programs and both engines have their share.
	other := engineAfter(on[0], 1)
	return append(all, target{other, microVMFor(other)})
}

// engineForFake returns the engine on which the fake of a microVM program is tested.
func engineForFake(t *testing.T, driver string) engines.Engine {
	t.Helper()
	all := engines.Need(t)
	i := slices.IndexFunc(all, func(e engines.Engine) bool { return microVMFor(e) == driver })
	return all[max(i, 0)]
}

func TestOnEveryEngineListsTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	assert.NilError(t, err)
	var all strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(f)
		assert.NilError(t, err)
		_, _ = all.Write(content)
	}
	for _, name := range onEveryEngine {
		assert.Check(t, strings.Contains(all.String(), "func "+name+"(t *testing.T)"), name)
	}
}

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

// onBothDrivers lists the tests of how commands, streams and signals reach a sandbox, and of its creation and
// removal. Each other test of every driver runs with the microVM programs' fakes only in the matrix: above
// its driver, the program is the same.
var onBothDrivers = []string{
	"TestBuildTurnsThreeTasksIntoCommits",
	"TestCleanRemovesOnlyTheSandbox",
	"TestConcurrentCommandsShareASandbox",
	"TestCtrlCEndsARun",
	"TestEnvironmentVariablesArePassedByName",
	"TestKilledPluginDoesNotInterruptTheLoop",
	"TestLargeInputAndOutput",
	"TestOutputAndExitCodeArePassedThrough",
	"TestRunAtATerminal",
	"TestSignalDuringSandboxCreation",
	"TestStopNowEndsALoopWhoseCommandWasKilled",
	"TestStoppedOrRemovedSandboxIsStartedOrRecreated",
	"TestTerminalSizeIsForwarded",
}

// onRemotes lists the tests that run on a remote engine, too, and not only in the matrix: streams, signals,
// keys and commits over the connection, and what a clone lacks of the user's machine.
var onRemotes = []string{
	"TestBuildTurnsThreeTasksIntoCommits",
	"TestClaudeWorksWithoutItsKey",
	"TestGitTokenStaysOnTheHost",
	"TestLargeInputAndOutput",
	"TestNetworkPolicy",
	"TestProjectImageFromBuildToPrune",
	"TestQuestionsAreAnsweredWhileTheLoopRuns",
	"TestRunAtATerminal",
	"TestStatusShowsWhatTheSandboxDoes",
	"TestStopLetsTheLoopFinishItsTask",
}

// inMatrix reports whether the tests run in all combinations: on both kinds of engines, with all drivers,
// and on remote engines. "make test-all" does.
func inMatrix() bool { return len(engines.List()) > 1 }

// onlyInMatrix skips a test that needs the current engine, which takes minutes to compile, or that takes more
// than a minute itself.
func onlyInMatrix(t *testing.T) {
	t.Helper()
	if !inMatrix() {
		t.Skip("only \"make test-all\" runs this")
	}
}

// sample returns the rows of a long table that run: all in the matrix, elsewhere every nth.
func sample[T any](rows []T, n int) []T {
	if inMatrix() {
		return rows
	}
	var some []T
	for i := 0; i < len(rows); i += n {
		some = append(some, rows[i])
	}
	return some
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
	if len(all) == 1 || listed(t, onEveryEngine) {
		return all
	}
	i := (hashOf(testName(t)) >> 1) % len(all)
	return all[i : i+1]
}

// testName is the name of a test without those of its subtests.
func testName(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

func listed(t *testing.T, names []string) bool {
	t.Helper()
	return slices.Contains(names, testName(t))
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
// both where it runs on every engine. With one engine, the program is chosen by a hash of the test's name.
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
	if !inMatrix() {
		if listed(t, onBothDrivers) {
			programs := []string{config.DriverSbx, config.DriverDockerSandbox}
			all = append(all, target{on[0], programs[hashOf(testName(t))%len(programs)]})
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

func TestListsNameTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	assert.NilError(t, err)
	var all strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(f)
		assert.NilError(t, err)
		_, _ = all.Write(content)
	}
	for _, name := range slices.Concat(onEveryEngine, onBothDrivers, onRemotes, onlyMatrix) {
		assert.Check(t, strings.Contains(all.String(), "func "+name+"(t *testing.T)"), name)
	}
}

package host

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// EngineRecord is the engine of a sandbox of the container driver. It exists as long as the sandbox,
// or its git volume. The rest describes the sandbox while the engine cannot be reached.
type EngineRecord struct {
	Engine    Engine        `json:"engine"`
	Scope     gitrepo.Scope `json:"scope"`
	Root      string        `json:"root"`
	MainRoot  string        `json:"main_root,omitempty"`
	Agent     string        `json:"agent,omitempty"`
	Image     string        `json:"image,omitempty"`
	Private   bool          `json:"private,omitempty"`
	Clone     bool          `json:"clone,omitempty"`
	Ephemeral bool          `json:"ephemeral,omitempty"`
}

// NewEngineRecord returns the record of a sandbox that is about to be used.
func NewEngineRecord(e Engine, spec lifecycle.Spec) EngineRecord {
	return EngineRecord{
		Engine: e, Scope: spec.Scope, Root: spec.Root, MainRoot: spec.MainRoot,
		Agent: spec.Agent, Image: spec.Image, Private: spec.Private, Clone: spec.Clone, Ephemeral: spec.Ephemeral,
	}
}

// sandbox describes the sandbox while its engine cannot be reached.
func (r EngineRecord) sandbox(name, why string) lifecycle.Sandbox {
	return lifecycle.Sandbox{
		Name: name, State: lifecycle.Unknown, Why: why, Scope: r.Scope, Root: r.Root, MainRoot: r.MainRoot,
		Agent: r.Agent, Image: r.Image, Private: r.Private, Clone: r.Clone, Ephemeral: r.Ephemeral,
	}
}

var engineRecords = scopes.Section[EngineRecord]("engine")

// EngineRecord returns the record of a sandbox. A damaged one counts as missing.
func (h Host) EngineRecord(sandbox string) (r EngineRecord, found bool) {
	r, found, _ = engineRecords.Read(h.StateDir, sandbox)
	return r, found
}

// EngineRecords returns all records by the name of the sandbox.
func (h Host) EngineRecords() (map[string]EngineRecord, error) { return engineRecords.All(h.StateDir) }

// SaveEngine records the engine of a sandbox. It is an error if another command has created it on
// another one, or moved it there.
func (h Host) SaveEngine(sandbox string, r EngineRecord) error {
	if has, found := h.EngineRecord(sandbox); found && has == r {
		return nil
	}
	err := engineRecords.Update(h.StateDir, sandbox, func(has EngineRecord, found bool) (EngineRecord, error) {
		if found && !has.Engine.Same(r.Engine) {
			return has, hint.Wrap(fmt.Errorf("it was moved to engine %s", has.Engine), "run the command again")
		}
		return r, nil
	})
	if err != nil {
		return fmt.Errorf("recording the engine of sandbox %s: %w", sandbox, err)
	}
	return nil
}

// MoveEngine records the engine of a sandbox in place of another one.
func (h Host) MoveEngine(sandbox string, r EngineRecord) error {
	if err := engineRecords.Write(h.StateDir, sandbox, r); err != nil {
		return fmt.Errorf("recording the engine of sandbox %s: %w", sandbox, err)
	}
	return nil
}

// ForgetEngine removes the record of a sandbox that was removed for good.
func (h Host) ForgetEngine(sandbox string) error {
	if err := engineRecords.Remove(h.StateDir, sandbox); err != nil {
		return fmt.Errorf("forgetting the engine of sandbox %s: %w", sandbox, err)
	}
	return nil
}

// ForgetEngineOn is ForgetEngine if the record is of that engine.
func (h Host) ForgetEngineOn(sandbox string, e Engine) error {
	if r, found := h.EngineRecord(sandbox); !found || !r.Engine.Same(e) {
		return nil
	}
	return h.ForgetEngine(sandbox)
}

// Remove removes a sandbox for good, with the record of its engine, unless its git volume stays.
func (h Host) Remove(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) error {
	kept := sb.Private && !gitsync.Saved(h.StateDir, sb.Name) // see [container.Driver.Remove]
	if err := driver.Remove(ctx, sb); err != nil || kept {
		return err
	}
	if sb.Ephemeral {
		h.forgetLocks(sb.Name)
	}
	return h.ForgetEngine(sb.Name)
}

// ForgetSandbox removes what the host keeps of a sandbox whose engine is gone.
func (h Host) ForgetSandbox(sb lifecycle.Sandbox) error {
	return errors.Join(
		(&container.Driver{StateDir: h.StateDir}).Forget(sb),
		gitsync.Forget(h.StateDir, sb.Name),
		os.RemoveAll(h.RecordDir(sb.Name)),
		h.ForgetEngine(sb.Name),
	)
}

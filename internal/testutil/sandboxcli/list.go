package sandboxcli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// entry is a sandbox in "sbx ls --json" (contract 6.1: fixtures and captures
// from 0.23 to 0.45.1; later ones are unknown).
type entry struct {
	Name       string     `json:"name"`
	ID         string     `json:"id,omitempty"` // REL 0.29; CODE S27: missing in 0.32
	Agent      string     `json:"agent"`
	Status     string     `json:"status"`
	Workspaces []string   `json:"workspaces,omitempty"` // CODE S23: absent when there is none
	Missing    *bool      `json:"workspace_missing,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"` // MEAS v0.45.1 S24
	LastUsed   *time.Time `json:"last_used_at,omitempty"`
	Extra      any        `json:"x_future,omitempty"`
}

// vm is a sandbox in "docker sandbox ls --json" (DOC S13, 1P S17).
type vm struct {
	Name       string   `json:"name"`
	Agent      string   `json:"agent"`
	Status     string   `json:"status"`
	SocketPath string   `json:"socket_path,omitempty"`
	Count      int      `json:"sandbox_count"`
	Workspaces []string `json:"workspaces,omitempty"`
	Extra      any      `json:"x_future,omitempty"`
}

func (c *call) ls(args []string) (int, error) {
	fs := c.flags("ls")
	asJSON := fs.Bool("json", false, "")
	quiet := fs.BoolP("quiet", "q", false, "")
	if c.cli == plugin {
		fs.Bool("no-trunc", false, "")
	}
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("ls", args, 0, 0); err != nil {
		return 0, err
	}
	if c.settings.Faults.HangList {
		return hang()
	}
	var all []record
	if !c.lost() { // MEAS v0.45.1: without an engine the list is empty
		if all, err = c.store.list(); err != nil {
			return 0, err
		}
	}
	switch {
	case *asJSON:
		return 0, c.lsJSON(all)
	case *quiet:
		for _, r := range all {
			c.print("%s\n", r.Name)
		}
	case len(all) == 0:
		c.print("No sandboxes found.\n") // MEAS v0.23 S26
	default:
		w := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "SANDBOX\tAGENT\tSTATUS\tPORTS\tWORKSPACE") // MEAS v0.23, v0.38; DOC S5
		for _, r := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t\t%s\n", r.Name, r.Agent, r.Status, strings.Join(r.Workspaces, ", "))
		}
		return 0, w.Flush()
	}
	return 0, nil
}

func (c *call) lsJSON(all []record) error {
	f := c.settings.Faults
	if f.GarbageList {
		return c.printDocument("panic: runtime error: invalid memory address or nil pointer dereference\n")
	}
	entries := []any{}
	for _, r := range all {
		if f.NoWorkspaces {
			r.Workspaces = nil
		}
		if c.cli == plugin {
			entries = append(entries, c.vmOf(r))
		} else {
			entries = append(entries, c.entryOf(r))
		}
	}
	root := "sandboxes"
	if c.cli == plugin {
		root = "vms"
	}
	document := map[string]any{root: entries}
	if f.ExtraFields {
		document = map[string]any{root: entries, "x_future": map[string]any{"page": 1}}
	}
	if !f.TruncatedList {
		return c.printJSON(document)
	}
	content, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return c.printDocument(string(content[:len(content)/2]))
}

func (c *call) entryOf(r record) entry {
	e := entry{Name: r.Name, Agent: r.Agent, Status: r.Status, Workspaces: r.Workspaces}
	if c.since(29) && (!c.since(32) || c.since(33)) && !c.settings.Faults.NoID {
		e.ID = r.ID
	}
	if c.since(38) {
		missing := false
		for _, w := range r.Workspaces {
			missing = missing || !exists(w)
		}
		e.Missing = &missing
	}
	if c.since(43) {
		created, used := r.CreatedAt.UTC(), r.LastUsed.UTC()
		e.CreatedAt, e.LastUsed = &created, &used
	}
	if c.settings.Faults.ExtraFields {
		e.Extra = []int{1, 2}
	}
	return e
}

func (c *call) vmOf(r record) vm {
	v := vm{Name: r.Name, Agent: r.Agent, Status: r.Status, Workspaces: r.Workspaces}
	if r.Status == running {
		v.SocketPath, v.Count = c.store.path("vm", r.Name, "docker.sock"), 1 // what the count counts is ?
	}
	if c.settings.Faults.ExtraFields {
		v.Extra = []int{1, 2}
	}
	return v
}

// inspect shows one sandbox. The shape is MEAS v0.38 S25; that "state" is the
// key is MEAS v0.45.1 S24 too.
func (c *call) inspect(args []string) (int, error) {
	fs := c.flags("inspect")
	asJSON := fs.Bool("json", false, "")
	format := fs.String("format", "table", "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("inspect", args, 1, 1); err != nil {
		return 0, err
	}
	if c.lost() {
		return 0, c.errLost()
	}
	r, ok, err := c.find(args[0])
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, c.errNotFound(args[0])
	}
	sessions, _, err := c.store.sessions(r.Name)
	if err != nil {
		return 0, err
	}
	if !*asJSON && *format != "json" {
		c.print("Name:      %s\nAgent:     %s\nState:     %s\nWorkspace: %s\nSessions:  %d\n",
			r.Name, r.Agent, r.Status, r.primary(), sessions) // ?
		return 0, nil
	}
	return 0, c.printJSON(map[string]any{
		"name": r.Name, "agent": r.Agent, "state": r.Status, "uptime": time.Since(r.IdleSince).Round(time.Second).String(),
		"image": r.Template, "workspace": r.primary(), "network": r.Name,
		"network_policy": map[string]any{"scope": "global"}, "sessions": sessions,
		"daemon_version": "v" + c.bareVersion(),
	})
}

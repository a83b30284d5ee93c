package sandboxcli

import (
	"context"
	"path/filepath"
	"time"
)

// logEntry is what is known of the requests of one sandbox to one host, as sbx
// prints it (contract, section 6.3). That the plugin prints the same, and that
// the times are RFC 3339, is ?.
type logEntry struct {
	Host     string    `json:"host"`
	Sandbox  string    `json:"vm_name"`
	Proxy    string    `json:"proxy_type"`
	Rule     string    `json:"rule"`
	LastSeen time.Time `json:"last_seen"`
	Since    time.Time `json:"since"`
	Count    int       `json:"count_since"`
	Reason   string    `json:"reason,omitempty"`
}

type netLog struct {
	Blocked []logEntry `json:"blocked_hosts"`
	Allowed []logEntry `json:"allowed_hosts"`
}

const logFile = "netlog.json"

func (c *call) readLog() (netLog, error) {
	log := netLog{Blocked: []logEntry{}, Allowed: []logEntry{}}
	_, err := c.store.readJSON(&log, logFile)
	return log, err
}

// printLog prints the log of a sandbox, or of all. It outlives them.
func (c *call) printLog(sandbox string, asJSON bool) error {
	if f := c.settings.Faults.NoLog; f != "" {
		return c.fail("%s", f)
	}
	log, err := c.readLog()
	if err != nil {
		return err
	}
	if sandbox != "" {
		log = netLog{Blocked: of(sandbox, log.Blocked), Allowed: of(sandbox, log.Allowed)}
	}
	if asJSON {
		return c.printJSON(log)
	}
	c.print("Blocked requests:\n") // CODE, a capture of the plugin; the columns are ?
	for _, e := range log.Blocked {
		c.print("%s  %s  %s  %d\n", e.Sandbox, e.Host, e.Rule, e.Count)
	}
	c.print("\nAllowed requests:\n")
	for _, e := range log.Allowed {
		c.print("%s  %s  %s  %d\n", e.Sandbox, e.Host, e.Rule, e.Count)
	}
	return nil
}

func of(sandbox string, entries []logEntry) []logEntry {
	found := []logEntry{}
	for _, e := range entries {
		if e.Sandbox == sandbox {
			found = append(found, e)
		}
	}
	return found
}

// Request does what the proxy of sbx or docker-sandbox does when a program in a
// sandbox asks for a host:port: it decides by the rules that are in force, and
// logs it. Nothing is connected to.
func Request(ctx context.Context, dir, cli, sandbox, target string) (allowed bool, err error) {
	c := &call{ctx: ctx, cli: flavour(cli), dir: dir}
	if c.settings, err = Load(dir); err != nil {
		return false, err
	}
	if c.store, err = openStore(filepath.Join(dir, cli)); err != nil {
		return false, err
	}
	unlock, err := c.store.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	entry := logEntry{Host: target, Sandbox: sandbox, Proxy: "forward"}
	if c.cli == plugin {
		r, ok, err := c.find(sandbox)
		if err == nil && !ok {
			err = c.errNotFound(sandbox)
		}
		if err != nil {
			return false, err
		}
		allowed, entry.Rule = decideBySettings(r.Network, target)
	} else {
		rules, err := c.rules()
		if err != nil {
			return false, err
		}
		allowed, _, entry.Reason = decide(rules, sandbox, target)
	}
	log, err := c.readLog()
	if err != nil {
		return false, err
	}
	if allowed {
		log.Allowed = counted(log.Allowed, entry)
	} else {
		log.Blocked = counted(log.Blocked, entry)
	}
	return allowed, c.store.writeJSON(log, logFile)
}

func counted(entries []logEntry, e logEntry) []logEntry {
	now := time.Now().UTC()
	for i, old := range entries {
		if old.Host == e.Host && old.Sandbox == e.Sandbox {
			entries[i].Count, entries[i].LastSeen = old.Count+1, now
			return entries
		}
	}
	e.Count, e.Since, e.LastSeen = 1, now, now
	return append(entries, e)
}

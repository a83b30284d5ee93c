package sandboxcli

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// rule is a rule of the network policy (MEAS v0.38 S25).
type rule struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	PolicyID     string   `json:"policy_id"`
	Scope        string   `json:"scope"`
	AppliesTo    string   `json:"applies_to"` // "sandbox:NAME" or "all": CODE, captures of others
	ResourceType string   `json:"resource_type"`
	Decision     string   `json:"decision"`
	Resources    []string `json:"resources"`
	Origin       string   `json:"origin"` // CODE, captures of others v0.47: "scoped" if it is for one sandbox
	Status       string   `json:"status"`
	Editable     bool     `json:"editable"`
}

const (
	rulesFile = "rules.json"
	forAll    = "all"
)

// rules are the rules that were added, after those of the policy in the settings. Without a
// policy there are none.
func (c *call) rules() ([]rule, error) {
	rules := []rule{}
	if !c.settings.PolicyInitialised {
		return rules, nil
	}
	found, err := c.store.readJSON(&rules, rulesFile)
	if !found && err == nil {
		rules = balanced()
	}
	for i, r := range rules { // contract 9.6: the sandbox's own allow rules do not count then
		if rules[i].Status = "active"; c.settings.Governed && r.Decision == "allow" {
			rules[i].Status = "inactive"
		}
	}
	return rules, err
}

// balanced is a small part of the 200 hosts of that policy (DOC S11). That there
// are ports and wildcards, the first two names and their hosts are CODE, captures
// of others; what of googleapis.com is allowed is ?.
func balanced() []rule {
	return []rule{
		newRule(rule{Name: "default-ai-services", Decision: "allow", Resources: []string{"api.anthropic.com:443", "**.chatgpt.com:443"}}),
		newRule(rule{Name: "default-os-packages", Decision: "allow", Resources: []string{"archive.ubuntu.com:80"}}),
		newRule(rule{Name: "default-cloud", Decision: "allow", Resources: []string{"**.googleapis.com:443"}}),
		files(),
	}
}

// files is the rule for mounts, which is listed too (CODE, captures of others).
func files() rule {
	r := newRule(rule{Name: "default-fs-read-allow-all", Decision: "allow", Resources: []string{"**"}})
	r.ResourceType, r.Editable = "filesystem:read", false
	return r
}

func (c *call) changeRules(change func([]rule) []rule) error {
	unlock, err := c.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	rules, err := c.rules()
	if err != nil {
		return err
	}
	return c.store.writeJSON(change(rules), rulesFile)
}

func newRule(r rule) rule {
	r.ID, r.PolicyID, r.ResourceType, r.Origin, r.Status, r.Editable = uuid.NewString(), "local", "network", "local", "active", true
	if r.Name == "" {
		r.Name = r.ID // CODE, captures of others
	}
	if r.AppliesTo == "" {
		r.Scope, r.AppliesTo = "global", forAll
	} else {
		r.AppliesTo = "sandbox:" + r.AppliesTo
		r.Scope, r.Origin = r.AppliesTo, "scoped"
	}
	return r
}

func (c *call) addRule(r rule) error {
	return c.changeRules(func(rules []rule) []rule { return append(rules, newRule(r)) })
}

// forgetScoped drops the rules and secrets of a sandbox (DOC S3).
func (c *call) forgetScoped(name string) error {
	if c.cli == plugin {
		return nil
	}
	err := c.changeRules(func(rules []rule) []rule {
		return slices.DeleteFunc(rules, func(r rule) bool { return r.AppliesTo == "sandbox:"+name })
	})
	if err != nil {
		return err
	}
	return c.changeSecrets(func(secrets []secret) []secret {
		return slices.DeleteFunc(secrets, func(s secret) bool { return s.Scope == name })
	})
}

func (c *call) policy(args []string) (int, error) {
	verb, args := first(args)
	switch verb {
	case "init", "set-default": // renamed in 0.34 (MEAS S25)
		if c.since(34) == (verb == "init") {
			return c.policyInit(args)
		}
	case "allow", "deny":
		return c.policyAdd(verb, args)
	case "rm":
		return c.policyRm(args)
	case "ls":
		return c.policyLs(args)
	case "check":
		if c.since(35) { // CODE S20
			return c.policyCheck(args)
		}
	case "log":
		return c.policyLog(args)
	}
	return 0, c.fail("unknown command %q for \"sbx policy\"", verb)
}

func (c *call) policyInit(args []string) (int, error) {
	args, err := c.parse(c.flags("policy init"), args)
	if err != nil {
		return 0, err
	}
	if err := c.count("policy init", args, 1, 1); err != nil {
		return 0, err
	}
	if !slices.Contains([]string{"allow-all", "balanced", "deny-all"}, args[0]) { // DOC S11
		return 0, c.fail("invalid policy %q: use allow-all, balanced or deny-all", args[0])
	}
	if c.settings.PolicyInitialised {
		return 0, c.fail("the policy is already initialized") // ?
	}
	return 0, c.initPolicy(args[0])
}

func (c *call) initPolicy(preset string) error {
	rules := []rule{files()} // deny-all; that it is listed then too is ?
	switch preset {
	case "allow-all":
		rules = append(rules, newRule(rule{Name: "default-allow-all", Decision: "allow", Resources: []string{"**"}}))
	case "balanced":
		rules = balanced()
	}
	if err := c.changeRules(func([]rule) []rule { return rules }); err != nil {
		return err
	}
	c.settings.PolicyInitialised = true
	return Update(c.dir, func(s *Settings) { s.PolicyInitialised = true })
}

func (c *call) policyAdd(decision string, args []string) (int, error) {
	fs := c.flags("policy " + decision)
	sandbox := fs.String("sandbox", "", "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("policy "+decision, args, 2, 2); err != nil {
		return 0, err
	}
	if args[0] != "network" {
		return 0, c.fail("unknown command %q for \"sbx policy %s\"", args[0], decision)
	}
	if f := c.settings.Faults.NoRules; f != "" {
		return 0, c.fail("%s", f)
	}
	if err := c.checkScope(*sandbox); err != nil {
		return 0, err
	}
	if err := c.checkPatterns(strings.Split(args[1], ",")); err != nil {
		return 0, err
	}
	added := newRule(rule{Decision: decision, Resources: strings.Split(args[1], ","), AppliesTo: *sandbox})
	if decision == "deny" {
		if err := c.checkConflicts(added); err != nil {
			return 0, err
		}
	}
	return 0, c.changeRules(func(rules []rule) []rule { return append(rules, added) })
}

// checkScope refuses a sandbox that does not exist: ?.
func (c *call) checkScope(sandbox string) error {
	if sandbox == "" {
		return nil
	}
	_, ok, err := c.find(sandbox)
	if err == nil && !ok {
		err = c.errNotFound(sandbox)
	}
	return err
}

// checkConflicts refuses to deny what the same scope allows (CODE, captures of others v0.30, v0.47).
func (c *call) checkConflicts(added rule) error {
	rules, err := c.rules()
	if err != nil {
		return err
	}
	for _, r := range rules {
		for _, resource := range added.Resources {
			if r.ResourceType == added.ResourceType && r.AppliesTo == added.AppliesTo && r.Decision == "allow" && slices.Contains(r.Resources, resource) {
				return c.fail("deny: %q conflicts with existing allow rule", resource)
			}
		}
	}
	return nil
}

// policyRm removes rules of a sandbox or, without one, of all of them. What it
// does to a rule with more resources than the one that is named is ?.
func (c *call) policyRm(args []string) (int, error) {
	fs := c.flags("policy rm")
	sandbox := fs.String("sandbox", "", "")
	resource := fs.String("resource", "", "")
	id := fs.String("id", "", "")
	force := fs.BoolP("force", "f", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("policy rm", args, 1, 1); err != nil {
		return 0, err
	}
	if args[0] != "network" || (*resource == "") == (*id == "") {
		return 0, c.fail("name one rule of the network: --id or --resource") // ?
	}
	if c.since(45) && !*force { // DOC S5b; the text is ?
		return 0, c.fail("refusing to remove the rule without confirmation: use --force")
	}
	scope, found := forAll, false
	if *sandbox != "" {
		scope = "sandbox:" + *sandbox
	}
	err = c.changeRules(func(rules []rule) []rule {
		return slices.DeleteFunc(rules, func(r rule) bool {
			this := r.AppliesTo == scope && r.Editable && (r.ID == *id || slices.Contains(r.Resources, *resource))
			found = found || this
			return this
		})
	})
	if err == nil && !found {
		err = c.fail("no such rule") // ?
	}
	return 0, err
}

func (c *call) policyLs(args []string) (int, error) {
	fs := c.flags("policy ls")
	asJSON := fs.Bool("json", false, "")
	inactive := fs.Bool("include-inactive", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("policy ls", args, 0, 1); err != nil {
		return 0, err
	}
	rules, err := c.rules()
	if err != nil {
		return 0, err
	}
	rules = slices.DeleteFunc(rules, func(r rule) bool {
		return len(args) > 0 && !r.covers(args[0]) || !*inactive && r.Status == "inactive"
	})
	if *asJSON {
		return 0, c.printJSON(map[string]any{"rules": rules})
	}
	for _, r := range rules {
		c.print("%s  %s  %s\n", r.AppliesTo, r.Decision, strings.Join(r.Resources, ",")) // ?
	}
	return 0, nil
}

func (r rule) covers(sandbox string) bool {
	return r.AppliesTo == forAll || r.AppliesTo == "sandbox:"+sandbox
}

func (c *call) policyCheck(args []string) (int, error) {
	fs := c.flags("policy check")
	asJSON := fs.Bool("json", false, "")
	sandbox := fs.String("sandbox", "", "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("policy check", args, 2, 2); err != nil {
		return 0, err
	}
	if args[0] != "network" {
		return 0, c.fail("unknown command %q for \"sbx policy check\"", args[0])
	}
	rules, err := c.rules()
	if err != nil {
		return 0, err
	}
	target := args[1]
	allowed, kind, reason := decide(rules, *sandbox, target)
	code := 0
	if !allowed && c.since(47) { // CODE, captures of others v0.47
		code = 1
	}
	if *asJSON { // MEAS v0.38 S25
		return code, c.printJSON(map[string]any{
			"allowed": allowed, "target": target, "type": "network", "deny_kind": kind, "reason": reason,
			"governance": map[string]any{"active": false}, "resource_type": "network", "resource_value": target,
		})
	}
	word := "Denied"
	if allowed {
		word = "Allowed"
	}
	c.print("%s: %s\n", word, target)
	return code, nil
}

// decide applies rules: denying ones always win (DOC S11).
func decide(rules []rule, sandbox, target string) (allowed bool, kind, reason string) {
	kind, reason = "implicit", "No matching allow rule (default deny)"
	for _, r := range rules {
		if r.ResourceType != "network" || r.Status == "inactive" || !r.covers(sandbox) ||
			!slices.ContainsFunc(r.Resources, func(p string) bool { return matches(p, target) }) {
			continue
		}
		if r.Decision == "deny" {
			return false, "explicit", "Denied by rule " + r.Name
		}
		allowed, kind, reason = true, "", "Allowed by rule "+r.Name
	}
	return allowed, kind, reason
}

// policyLog is "policy log [SANDBOX]".
func (c *call) policyLog(args []string) (int, error) {
	fs := c.flags("policy log")
	asJSON := fs.Bool("json", false, "")
	fs.Int("limit", 0, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("policy log", args, 0, 1); err != nil {
		return 0, err
	}
	sandbox, _ := first(args)
	return 0, c.printLog(sandbox, *asJSON)
}

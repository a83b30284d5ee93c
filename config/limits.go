package config

import "math"

// limits maps each key that limits what an agent uses to its value in a configuration, which is
// infinite if there is no limit.
func limits() map[string]func(Config) float64 {
	unlessZero := func(n float64) float64 {
		if n == 0 {
			return math.Inf(1)
		}
		return n
	}
	return map[string]func(Config) float64{
		KeyMemory:                func(c Config) float64 { return float64(c.Sandbox.Resources.Memory) },
		KeyCPUs:                  func(c Config) float64 { return c.Sandbox.Resources.CPUs },
		"sandbox.resources.pids": func(c Config) float64 { return float64(c.Sandbox.Resources.Pids) },
		KeyTmp:                   func(c Config) float64 { return float64(c.Sandbox.Resources.Tmp) },
		KeyShm:                   func(c Config) float64 { return float64(c.Sandbox.Resources.Shm) },
		keyTimeout:               func(c Config) float64 { return float64(c.Sandbox.Resources.Timeout) },

		keyCheckTimeout: func(c Config) float64 { return unlessZero(float64(c.Loop.CheckTimeout)) },

		"loop.max_duration": func(c Config) float64 { return unlessZero(float64(c.Loop.MaxDuration)) },
		"loop.max_cost_usd": func(c Config) float64 { return unlessZero(c.Loop.MaxCostUSD) },
		"loop.max_tokens":   func(c Config) float64 { return unlessZero(float64(c.Loop.MaxTokens)) },
		"loop.max_failures": func(c Config) float64 { return unlessZero(float64(c.Loop.MaxFailures)) },
		"loop.idle":         func(c Config) float64 { return unlessZero(float64(c.Loop.Idle)) },
		"loop.max_wait":     func(c Config) float64 { return unlessZero(float64(c.Loop.MaxWait)) },
		"loop.grace":        func(c Config) float64 { return float64(c.Loop.Grace) },
		"loop.stall": func(c Config) float64 {
			if c.Loop.Stall == nil {
				return DefaultStall
			}
			return unlessZero(float64(*c.Loop.Stall))
		},
	}
}

// limitPrivileges returns the limits. Values above those in force need approval.
func limitPrivileges(inForce Config) map[string]privilege {
	known := schema().settings
	all := map[string]privilege{}
	for key, allows := range limits() {
		all[key] = privilege{"raises a limit on what the agent uses", func(v string) bool {
			wanted := inForce
			return known[key].set(&wanted, v, FromRepository) != nil || allows(wanted) > allows(inForce)
		}}
	}
	return all
}

package config

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxBound is far beyond what a loop reaches and far below where a sum overflows.
const maxBound = 1 << 40

// loopSettings are the keys of [loop].
func loopSettings() []setting {
	var all []setting
	for _, s := range []struct {
		key  string
		form form
		env  string
	}{
		{"max_duration", stringForm, "RALPH_MAX_DURATION"},
		{"max_cost_usd", floatForm, "RALPH_MAX_COST_USD"},
		{"max_tokens", intForm, "RALPH_MAX_TOKENS"},
		{"max_failures", intForm, "RALPH_MAX_FAILURES"},
		{"stall", intForm, "RALPH_STALL"},
		{"idle", floatForm, "RALPH_IDLE"},
		{"max_wait", stringForm, "RALPH_MAX_WAIT"},
		{"grace", stringForm, "RALPH_GRACE"},
	} {
		all = append(all, setting{
			key: "loop." + s.key, form: s.form, env: s.env,
			set: func(c *Config, v string, _ OriginKind) error { return c.Loop.Set(s.key, v) },
		})
	}
	return all
}

// Set stores the value of one key of [loop], such as "max_duration", as it is
// written in a file or on the command line. The error says how to write it,
// without naming the key.
func (l *Loop) Set(key, v string) (err error) {
	switch key {
	case "max_duration":
		l.MaxDuration, err = parseBound(v)
	case "max_wait":
		l.MaxWait, err = parseBound(v)
	case "grace":
		if l.Grace, err = parseBound(v); err == nil && l.Grace == 0 {
			err = fmt.Errorf("must be at least 1s")
		}
	case "max_cost_usd":
		l.MaxCostUSD, err = parseAmount(v)
	case "max_tokens":
		l.MaxTokens, err = parseInt(v, 0, maxBound)
	case "max_failures":
		var n int64
		n, err = parseInt(v, 0, math.MaxInt32)
		l.MaxFailures = int(n)
	case "stall":
		var n int64
		n, err = parseInt(v, 0, math.MaxInt32)
		stall := int(n)
		l.Stall = &stall
	case "idle":
		l.Idle, err = parseMinutes(v)
	default:
		err = fmt.Errorf("no such limit")
	}
	return err
}

// parseBound reads a time; 0 means no bound.
func parseBound(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > 0 && d < time.Second || d > maxTimeoutMinutes*time.Minute {
		return 0, fmt.Errorf(`must be 0 or a duration such as 90m or 1h30m, at most a year`)
	}
	return d, nil
}

// parseMinutes reads minutes, fractions allowed; 0 means no bound.
func parseMinutes(v string) (time.Duration, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > maxTimeoutMinutes {
		return 0, fmt.Errorf("must be 0 or a number of minutes, at most a year")
	}
	return time.Duration(n * float64(time.Minute)), nil
}

// parseAmount reads US dollars; 0 means no bound.
func parseAmount(v string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > maxBound {
		return 0, fmt.Errorf("must be an amount in US dollars, such as 2.50")
	}
	return n, nil
}

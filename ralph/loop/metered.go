package loop

import (
	"context"
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// startMeter ignores what was spent before a run.
func (l *loop) startMeter(ctx context.Context) {
	if l.Metered != nil {
		_, _ = l.Metered(ctx) // an error recurs
	}
}

// meter adds what the proxy has counted since the last call to a run. It reports whether
// there is a count.
func (l *loop) meter(ctx context.Context, o *outcome) bool {
	if l.Metered == nil {
		return false
	}
	more, err := l.Metered(ctx)
	if err != nil || len(more.Models) == 0 && more.Unknown == 0 {
		return false // of a proxy that is starting, or of an earlier version
	}
	if o.spent.Models == nil {
		o.spent.Models = map[string]usage.Tokens{}
	}
	for model, tokens := range more.Models {
		o.spent.Models[model] = o.spent.Models[model].Add(tokens)
	}
	o.spent.Unknown += more.Unknown
	o.metered, o.unpriced = l.estimate(o.spent.Models)
	return true
}

// estimate returns the sum of tokens and its cost, if all models have a price; otherwise
// the name of one without.
func (l *loop) estimate(models map[string]usage.Tokens) (sum event.Usage, unpriced string) {
	var tokens event.Tokens
	usd, priced := 0.0, true
	for _, model := range slices.Sorted(maps.Keys(models)) {
		if models[model] == (usage.Tokens{}) {
			continue
		}
		tokens = tokens.Plus(event.Tokens(models[model]))
		cost, known := l.Prices.Cost(model, models[model])
		if usd += cost; !known && priced {
			priced, unpriced = false, model
		}
	}
	if tokens.Total() <= 0 {
		return event.Usage{}, ""
	}
	sum.Tokens = &tokens
	if priced {
		sum.CostUSD = &usd
	}
	return sum, unpriced
}

// known returns the usage of a run: what the agent has reported, or else what the proxy
// has counted.
func (o outcome) known() event.Usage {
	u := o.usage
	if u.Tokens == nil {
		u.Tokens = o.metered.Tokens
	}
	if u.CostUSD == nil {
		u.CostUSD = o.metered.CostUSD
	}
	return u
}

// estimated reports whether the known cost is an estimate.
func (o outcome) estimated() bool { return o.usage.CostUSD == nil && o.metered.CostUSD != nil }

// largest returns the usage of a run that counts towards the limits: the larger of both.
// An agent may start others, whose usage it does not report.
func (o outcome) largest() event.Usage {
	u := o.known()
	if m := o.metered.Tokens; m != nil && m.Total() > u.Tokens.Total() {
		u.Tokens = m
	}
	if m := o.metered.CostUSD; m != nil && *m > *u.CostUSD {
		u.CostUSD = m
	}
	return u
}

// mainModel returns the model with the most tokens that the proxy has counted.
func (o outcome) mainModel() (model string) {
	for _, name := range slices.Sorted(maps.Keys(o.spent.Models)) {
		if event.Tokens(o.spent.Models[name]).Total() > event.Tokens(o.spent.Models[model]).Total() {
			model = name
		}
	}
	return model
}

// addUnreported adds to the limits what the agent has not reported.
func (l *loop) addUnreported(o outcome) {
	known, largest := o.known(), o.largest()
	if known.Tokens != nil {
		l.unreportedTokens += largest.Tokens.Total() - known.Tokens.Total()
	}
	if known.CostUSD != nil {
		l.unreportedUSD += *largest.CostUSD - *known.CostUSD
	}
}

// spentTokens and spentUSD return the sums of all runs that count towards the limits.
func (l *loop) spentTokens() int64 { return l.totals.Tokens + l.unreportedTokens }
func (l *loop) spentUSD() float64  { return l.totals.CostUSD + l.unreportedUSD }

// warnUnbounded warns of a bound that cannot be enforced.
func (l *loop) warnUnbounded(run outcome) {
	known := run.known()
	switch {
	case l.Bounds.MaxCostUSD == 0 || known.CostUSD != nil:
	case run.unpriced != "":
		l.warnOnce("cost", "the price of the model %s is unknown: max_cost_usd is not enforced", run.unpriced)
	default:
		l.warnOnce("cost", "agent %s does not report its cost: max_cost_usd is not enforced", l.Agent.Name())
	}
	if l.Bounds.MaxTokens > 0 && known.Tokens == nil {
		l.warnOnce("tokens", "agent %s does not report its tokens: max_tokens is not enforced", l.Agent.Name())
	}
	if bounded := l.Bounds.MaxCostUSD > 0 || l.Bounds.MaxTokens > 0; bounded && run.usage.Tokens == nil && run.spent.Unknown > 0 && known.Tokens != nil {
		l.warnOnce("unknown", "%s answers of the model reported no tokens and do not count towards the limits", stream.Grouped(run.spent.Unknown))
	}
}

// meter updates what the proxy has counted, and enforces the limits.
func (w *watch) meter(ctx context.Context) {
	l := w.loop
	if !l.meter(ctx, &w.out) {
		return
	}
	l.logUsage(w.out.known())
	l.saveNow(false)
	w.enforce()
}

package loop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
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
		o.spent.Models = map[usage.Key]usage.Tokens{}
	}
	for key, tokens := range more.Models {
		o.spent.Models[key] = o.spent.Models[key].Add(tokens)
	}
	o.spent.Unknown += more.Unknown
	o.metered, o.atMost = l.estimate(o.spent.Models)
	return true
}

// estimateReported estimates the cost of the tokens that an agent reports without their cost,
// where no proxy counts them: without surcharges, which depend on single requests.
func (l *loop) estimateReported(o *outcome) {
	if tokens := o.usage.Tokens; tokens != nil && o.usage.CostUSD == nil && len(o.spent.Models) == 0 {
		model := cmp.Or(o.model, l.Session.Model, l.Agent.Name())
		o.metered, o.atMost = l.estimate(map[usage.Key]usage.Tokens{{Model: model}: usage.Tokens(*tokens)})
	}
}

// bounded is a cost that is at most that, because a model has no price.
type bounded struct {
	usd            float64
	model, dearest string // the model, and the one that it is at most as dear as
}

// estimate returns the sum of tokens and its cost, if all models have a price; otherwise
// what it is at most.
func (l *loop) estimate(models map[usage.Key]usage.Tokens) (sum event.Usage, atMost bounded) {
	var tokens event.Tokens
	usd := 0.0
	for _, key := range slices.SortedFunc(maps.Keys(models), usage.Key.Compare) {
		if models[key] == (usage.Tokens{}) {
			continue
		}
		tokens = tokens.Plus(event.Tokens(models[key]))
		cost, known := l.Prices.Cost(key.Model, key.Over, models[key])
		if !known {
			cost, atMost.dearest = l.Prices.AtMost(key.Model, key.Over, models[key])
			atMost.model = cmp.Or(key.Model, "unknown")
		}
		usd += cost
	}
	if tokens.Total() <= 0 {
		return event.Usage{}, bounded{}
	}
	sum.Tokens = &tokens
	if atMost.model == "" {
		sum.CostUSD = &usd
	}
	atMost.usd = usd
	return sum, atMost
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
	if o.bounded() {
		u.CostUSD = &o.atMost.usd
	}
	return u
}

// bounded reports whether it is only known what the run has cost at most. Some agents report
// a cost of 0 for a model without a price.
func (o outcome) bounded() bool {
	known := o.known().CostUSD
	return o.atMost.dearest != "" && (known == nil || *known == 0)
}

// mainModel returns the model with the most tokens that the proxy has counted.
func (o outcome) mainModel() (model string) {
	totals := map[string]int64{}
	for key, tokens := range o.spent.Models {
		totals[key.Model] += event.Tokens(tokens).Total()
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		if totals[name] > totals[model] {
			model = name
		}
	}
	return model
}

// addUnreported adds to the limits what the agent has not reported.
func (l *loop) addUnreported(o outcome) {
	known, largest := o.known(), o.largest()
	if o.bounded() {
		l.guessed = o.atMost
	}
	if known.Tokens != nil {
		l.unreportedTokens += largest.Tokens.Total() - known.Tokens.Total()
	}
	if largest.CostUSD != nil {
		l.unreportedUSD += *largest.CostUSD
	}
	if known.CostUSD != nil {
		l.unreportedUSD -= *known.CostUSD
	}
}

// addEarlier adds to the limits what runs of the resumed loop have cost at most.
func (l *loop) addEarlier() {
	for _, it := range l.Earlier {
		if it.Tokens == nil || it.CostUSD != nil {
			continue
		}
		model := cmp.Or(it.Model, l.Agent.Name())
		if usd, dearest := l.Prices.AtMost(model, 0, usage.Tokens(*it.Tokens)); dearest != "" {
			l.unreportedUSD += max(0, usd)
			l.guessed = bounded{usd, model, dearest}
		}
	}
}

// spentTokens and spentUSD return the sums of all runs that count towards the limits.
func (l *loop) spentTokens() int64 { return l.totals.Tokens + l.unreportedTokens }
func (l *loop) spentUSD() float64  { return l.totals.CostUSD + l.unreportedUSD }

// warnUnbounded warns of a bound that cannot be enforced, or that is reached too early.
func (l *loop) warnUnbounded(run outcome) {
	known := run.known()
	switch {
	case l.Bounds.MaxCostUSD == 0:
	case run.bounded():
		l.warnOnce("cost", "the price of the model %s is unknown: it counts as %s towards max_cost_usd", run.atMost.model, run.atMost.dearest)
	case known.CostUSD == nil:
		l.costUnknown = run.code == 0 // others may not have reached a model
		l.warnOnce("cost", "agent %s does not report its cost: max_cost_usd is not enforced", l.Agent.Name())
	}
	if l.Bounds.MaxTokens > 0 && known.Tokens == nil {
		l.warnOnce("tokens", "agent %s does not report its tokens: max_tokens is not enforced", l.Agent.Name())
	}
	if bounded := l.Bounds.MaxCostUSD > 0 || l.Bounds.MaxTokens > 0; bounded && run.usage.Tokens == nil && run.spent.Unknown > 0 && known.Tokens != nil {
		l.warnOnce("unknown", "%s answers of the model reported no tokens and do not count towards the limits", stream.Grouped(run.spent.Unknown))
	}
}

// overCostError returns the error for the limit of the cost.
func (l *loop) overCostError() error {
	spent, limit := dollars(l.spentUSD()), dollars(l.Bounds.MaxCostUSD)
	if l.guessed.model == "" {
		return fmt.Errorf("cost limit reached: %s of %s (max_cost_usd)", spent, limit)
	}
	return hint.Wrap(fmt.Errorf("cost limit reached: at most %s of %s (max_cost_usd)", spent, limit),
		"the model %s has no price and counts as %s; set its price below [prices] in your configuration", l.guessed.model, l.guessed.dearest)
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

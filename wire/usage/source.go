package usage

import (
	"context"
	"net/url"

	"github.com/docker-ralph/docker-ralph/wire/plainhttp"
)

// Source is a proxy with its last answer.
type Source struct {
	url  *url.URL
	last Totals
}

// At returns the proxy at the address of its deny log, or nil without one.
func At(address string) *Source {
	u := plainhttp.Parse(address)
	if u == nil {
		return nil
	}
	u.Path, u.RawPath, u.RawQuery = Path, "", ""
	return &Source{url: u}
}

// Spent is what was spent in some time, by model and size of prompts.
type Spent struct {
	Models map[Key]Tokens
	// Unknown counts streamed answers without figures.
	Unknown int64
}

// Next returns what was spent in the sandbox since the last successful call, or since a
// restart of the proxy after it; the first call returns nothing.
func (s *Source) Next(ctx context.Context) (Spent, error) {
	body, err := plainhttp.Get(ctx, s.url, maxSize)
	if err != nil {
		return Spent{}, err
	}
	now, err := Read(body)
	if err != nil {
		return Spent{}, err
	}
	last := s.last
	s.last = now
	if last.ID == "" {
		return Spent{}, nil
	}
	spent := Spent{Models: map[Key]Tokens{}, Unknown: now.Unknown}
	for _, m := range now.Models {
		spent.Models[m.key()] = spent.Models[m.key()].Add(m.Tokens)
	}
	if now.ID == last.ID {
		spent.Unknown -= last.Unknown
		for _, m := range last.Models {
			spent.Models[m.key()] = spent.Models[m.key()].Sub(m.Tokens)
		}
	}
	return spent, nil
}

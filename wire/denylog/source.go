package denylog

import (
	"context"
	"net/url"

	"github.com/docker-ralph/docker-ralph/wire/plainhttp"
)

// Source is a proxy with the mark of its last answer.
type Source struct {
	url  *url.URL
	mark string
}

// At returns the proxy at an address, the value of [Env], or nil without one.
func At(address string) *Source {
	u := plainhttp.Parse(address)
	if u == nil {
		return nil
	}
	return &Source{url: u}
}

// Next returns the connections blocked since the last successful call; the first
// call returns none. Errors are ignored.
func (s *Source) Next(ctx context.Context) Answer {
	answer, err := s.ask(ctx)
	if err != nil {
		return Answer{}
	}
	s.mark = answer.Mark
	return answer
}

func (s *Source) ask(ctx context.Context) (Answer, error) {
	u := *s.url
	u.RawQuery = ""
	if s.mark != "" {
		u.RawQuery = url.Values{Since: {s.mark}}.Encode()
	}
	body, err := plainhttp.Get(ctx, &u, maxSize)
	if err != nil {
		return Answer{}, err
	}
	return Read(body)
}

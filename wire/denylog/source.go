package denylog

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// timeout bounds a request. A dead proxy delays the loop that long.
const timeout = time.Second

// Source is a proxy with the mark of its last answer.
type Source struct {
	url    *url.URL
	client *http.Client
	mark   string
}

// At returns the proxy at an address, the value of [Env], or nil without one.
func At(address string) *Source {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil
	}
	return &Source{url: u, client: &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{DisableKeepAlives: true}, // without a proxy from the environment
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Answer{}, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return Answer{}, errors.New(res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxSize+1))
	if err != nil {
		return Answer{}, err
	}
	return Read(body)
}

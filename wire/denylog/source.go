package denylog

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// patience bounds one question. A proxy that is gone holds the loop up for that
// long.
const patience = time.Second

// Source is a proxy, and up to where its refusals are known.
type Source struct {
	url    *url.URL
	client *http.Client
	mark   string
}

// At returns the proxy that answers at an address, which is a value of
// [Env], or nil where there is none.
func At(address string) *Source {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil
	}
	return &Source{url: u, client: &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no other proxy in between
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Next returns what was refused since the last call that had an answer; the
// first one finds nothing, and is where it all begins. A proxy that does not
// answer has refused nothing.
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

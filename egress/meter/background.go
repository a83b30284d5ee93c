package meter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// ErrBackground is the error of a request whose tokens could not be counted: its answer would come after the request.
var ErrBackground = errors.New(`"background" is set, and the tokens of background responses cannot be counted`)

// ErrUnreadable is the error of a request that could ask for a background response unseen.
var ErrUnreadable = errors.New("the body is not JSON in UTF-8 without an encoding")

// ForegroundOnly returns the body of a request to OpenAI's Responses API. Reading it fails
// with [ErrBackground] before the part that asks for a background response, so that the model
// never gets the whole request.
func ForegroundOnly(body io.ReadCloser, header http.Header) (io.ReadCloser, error) {
	if encoding := header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, ErrUnreadable
	}
	f := &foreground{ReadCloser: body}
	f.json = scanner{value: f.value, end: func() {}}
	return f, nil
}

type foreground struct {
	io.ReadCloser
	json scanner
	err  error
}

func (f *foreground) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.ReadCloser.Read(p)
	if bytes.IndexByte(p[:n], 0) >= 0 { // UTF-16, which some servers detect
		f.err = ErrUnreadable
	}
	f.json.scan(p[:n])
	if f.err != nil {
		return 0, f.err
	}
	return n, err
}

func (f *foreground) value(path, value []byte, quoted bool) {
	var key string
	if json.Unmarshal([]byte(`"`+string(path)+`"`), &key) != nil || key != "background" {
		return
	}
	if off := string(value); quoted || off != "false" && off != "null" {
		f.err = ErrBackground
	}
}

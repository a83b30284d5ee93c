package session

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire"
)

func frame(kind byte, flags uint16, length uint32, body string) string {
	h := []byte{0, kind}
	h = binary.BigEndian.AppendUint16(h, flags)
	h = binary.BigEndian.AppendUint32(h, 1)
	return string(binary.BigEndian.AppendUint32(h, length)) + body
}

type reading struct {
	io.Reader
	io.WriteCloser
}

func TestGuard(t *testing.T) {
	ping := frame(typePing, flagQuery, 7, "")
	for name, tc := range map[string]struct {
		sent string
		want error
	}{
		"data that looks like queries": {frame(typeData, 0, uint32(300*len(ping)), strings.Repeat(ping, 300)) + ping, nil},
		"a few queries":                {strings.Repeat(ping, maxPings), nil},
		"answers":                      {strings.Repeat(frame(typePing, 2, 7, ""), 1000), nil},
		"window updates":               {strings.Repeat(frame(1, 1, 7, ""), 1000), nil},
		"queries without end":          {strings.Repeat(ping+frame(typeData, 0, 3, "abc"), 1000), errPings},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.sent), iotest.OneByteReader(strings.NewReader(tc.sent))} {
				got, err := io.ReadAll(&guard{ReadWriteCloser: reading{Reader: r}})
				assert.Equal(t, err, tc.want)
				assert.Assert(t, strings.HasPrefix(tc.sent, string(got)))
				assert.Assert(t, err != nil || len(got) == len(tc.sent))
			}
		})
	}
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte(frame(typePing, flagQuery, 7, "")), 1)
	f.Add([]byte(frame(typeData, 0, 3, "abc")), 5)
	f.Fuzz(func(t *testing.T, sent []byte, piece int) {
		whole, parts := &guard{}, &guard{}
		whole.follow(sent)
		piece = max(piece, 1)
		for rest := sent; len(rest) > 0; {
			n := min(piece, len(rest))
			parts.follow(rest[:n])
			rest = rest[n:]
		}
		assert.Equal(t, whole.pings, parts.pings)
		assert.Equal(t, whole.body, parts.body)
	})
}

func FuzzReadReady(f *testing.F) {
	f.Add([]byte(wire.SessionReady))
	f.Add([]byte("ralph-session 2\nx"))
	f.Add([]byte("OCI runtime exec failed\r\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, said []byte) {
		r := bytes.NewReader(said)
		err := readReady(r)
		assert.Equal(t, err == nil, bytes.HasPrefix(said, []byte(wire.SessionReady)))
		if err == nil { // the rest belongs to the multiplexer
			assert.Equal(t, r.Len(), len(said)-len(wire.SessionReady))
			return
		}
		assert.Assert(t, len(err.Error()) < 20*maxQuoted)
		assert.Assert(t, !strings.ContainsAny(err.Error(), "\x00\x1b\n\r"), "%q", err)
	})
}

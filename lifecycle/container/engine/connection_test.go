package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/moby/buildkit/solver/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
)

func TestConnectionLost(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("no such image"), false},
		{context.Canceled, false},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{io.ErrUnexpectedEOF, true},
		{fmt.Errorf("attaching: %w", syscall.ECONNRESET), true},
		{fmt.Errorf("building image: %w", status.Error(codes.Unavailable, "error reading from server: EOF")), true},
		{&errdefs.SolveError{Err: status.Error(codes.Unavailable, "unexpected status from HEAD request: 503")}, false},
		{fmt.Errorf("building image: %w", status.Error(codes.Unknown, "process did not complete successfully")), false},
		{fmt.Errorf("building image: %w", status.Error(codes.Canceled, "context canceled")), false},
	} {
		assert.Equal(t, ConnectionLost(test.err), test.want, "%v", test.err)
	}
}

package engine

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/moby/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ConnectionLost reports whether an error means that the engine did not answer, or stopped in the
// middle of an answer. Errors of image builds have gRPC's code for it, also if a step of the build
// did not reach a registry.
func ConnectionLost(err error) bool {
	_, failed := errors.AsType[*net.OpError](err)
	_, answered := errors.AsType[*errdefs.SolveError](err)
	return failed || client.IsErrConnectionFailed(err) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		status.Code(err) == codes.Unavailable && !answered
}

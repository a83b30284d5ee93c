package plugin

import (
	"time"

	"github.com/docker/cli/cli/streams"
)

// notifyResized tells when the terminal's size has changed. Windows has no
// signal for it.
func notifyResized(out *streams.Out) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		height, width := out.GetTtySize()
		for range time.Tick(250 * time.Millisecond) {
			h, w := out.GetTtySize()
			if h == height && w == width {
				continue
			}
			height, width = h, w
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

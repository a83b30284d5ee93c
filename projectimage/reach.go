package projectimage

import "context"

// Reach connects to the engine's BuildKit and returns its version, "" if unknown. Without
// BuildKit, the error is a [NoBuildKitError].
func (b *Builder) Reach(ctx context.Context) (version string, _ error) {
	c, err := b.connect(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	workers, err := c.ListWorkers(ctx)
	if err != nil {
		return "", canceledOr(ctx, err)
	}
	for _, w := range workers {
		if w.BuildkitVersion.Version != "" {
			return w.BuildkitVersion.Version, nil
		}
	}
	return "", nil
}

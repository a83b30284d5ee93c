// Package imageref checks image references in configurations. It is not part of package
// config because ralph, which reads configurations at every start, does without it.
package imageref

import (
	"fmt"

	"github.com/distribution/reference"
)

// Checker is a config.ImageChecker.
type Checker struct{}

// Image checks a reference or an image ID.
func (Checker) Image(v string) error {
	_, err := reference.ParseAnyReference(v)
	return explain(err)
}

// Base checks a reference for FROM, which cannot be an ID.
func (Checker) Base(v string) error {
	_, err := reference.ParseNormalizedNamed(v)
	return explain(err)
}

func explain(err error) error {
	if err != nil {
		return fmt.Errorf("invalid image reference: %w", err)
	}
	return nil
}

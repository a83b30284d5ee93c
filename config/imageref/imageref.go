// Package imageref checks the names of images that stand in a configuration. It
// is apart from package config, as ralph reads configurations at every start and
// has no use for images.
package imageref

import (
	"fmt"

	"github.com/distribution/reference"
)

// Checker is a config.ImageChecker.
type Checker struct{}

// Image takes a reference or an image's ID.
func (Checker) Image(v string) error {
	_, err := reference.ParseAnyReference(v)
	return explain(err)
}

// Base takes what can follow FROM: a reference and no ID.
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

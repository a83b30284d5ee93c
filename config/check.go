package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Limits of the engine and of sensible values.
const (
	minMemory         = 6 << 20 // the engine's own minimum
	maxMemory         = 1 << 50
	minCPUs           = 0.01 // the engine's own minimum
	maxCPUs           = 10000
	minPids           = 16
	maxPids           = 1 << 22 // the kernel's own maximum
	maxTimeoutMinutes = 366 * 24 * 60
	maxModel          = 256
	maxNames          = 256 // in one list
)

var (
	agentName = lazyregexp.New(`^[a-z][a-z0-9-]{0,31}$`)
	cpuNumber = lazyregexp.New(`^[0-9]{1,6}(\.[0-9]{1,9})?$`)
)

func checkAgent(v string) error {
	if !agentName().MatchString(v) {
		return errors.New("use lower-case letters, digits and dashes")
	}
	return nil
}

// checkModel protects the agent's command line, which includes the model.
func checkModel(v string) error {
	unusual := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	switch {
	case strings.HasPrefix(v, "-"):
		return errors.New("must not start with a dash")
	case strings.ContainsFunc(v, unusual):
		return errors.New("must not contain whitespace or control characters")
	case len(v) > maxModel:
		return fmt.Errorf("must not be longer than %d characters", maxModel)
	}
	return nil
}

func checkChoice(v string, choices ...string) error {
	if slices.Contains(choices, v) {
		return nil
	}
	last := len(choices) - 1
	choose := fmt.Sprintf("use %s or %s", strings.Join(choices[:last], ", "), choices[last])
	if near := hint.Nearest(v, choices); near != "" {
		choose = fmt.Sprintf("did you mean %q? (%s)", near, choose)
	}
	return errors.New(choose)
}

func parseSize(v string) (int64, error) {
	n, err := units.RAMInBytes(v)
	if err != nil {
		return 0, errors.New("must be a size such as 512m or 8g")
	}
	if n < minMemory || n > maxMemory {
		return 0, errors.New("must be between 6m and 1024t")
	}
	return n, nil
}

func parseCPUs(v string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !cpuNumber().MatchString(v) || n < minCPUs || n > maxCPUs {
		return 0, fmt.Errorf("must be a number between %v and %v", minCPUs, maxCPUs)
	}
	return n, nil
}

func parseInt(v string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("must be an integer between %d and %d", least, most)
	}
	return n, nil
}

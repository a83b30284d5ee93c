package lifecycle

import (
	"encoding/json"
	"fmt"
	"time"
)

// ParseDispatches reads what "ralph _dispatches" prints in a sandbox. It comes
// from where the agent rules, so nothing in it is believed but its form.
func ParseDispatches(output []byte) ([]Dispatch, error) {
	var list struct {
		Dispatches []struct {
			ID      string    `json:"id"`
			Command []string  `json:"command"`
			Since   time.Time `json:"since"`
		} `json:"dispatches"`
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("reading what runs in the sandbox: %w", err)
	}
	var found []Dispatch
	for _, d := range list.Dispatches {
		found = append(found, Dispatch(d))
	}
	return found, nil
}

package lifecycle

import (
	"encoding/json"
	"fmt"
	"time"
)

// ParseDispatches parses the output of "ralph _dispatches" in a sandbox. The
// content is untrusted.
func ParseDispatches(output []byte) ([]Dispatch, error) {
	var list struct {
		Dispatches []struct {
			ID      string    `json:"id"`
			Command []string  `json:"command"`
			Since   time.Time `json:"since"`
		} `json:"dispatches"`
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("parsing the processes of the sandbox: %w", err)
	}
	var found []Dispatch
	for _, d := range list.Dispatches {
		found = append(found, Dispatch(d))
	}
	return found, nil
}

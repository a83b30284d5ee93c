package agent

import (
	_ "embed" // for the built-in registry
	"encoding/json"
	"os"
	"path/filepath"
)

//go:embed models.json
var builtinModels []byte

const backendSwitch = "CLAUDE_CODE_USE_BEDROCK"

// claudeBackend returns who serves claude's models: "bedrock" or "anthropic".
// The environment decides alone; without it any of claude's settings can
// switch bedrock on, and none of them off.
func claudeBackend(getenv func(string) string) string {
	if v := getenv(backendSwitch); v != "" {
		return backendName(v == "1")
	}
	for _, path := range []string{
		filepath.Join(".claude", "settings.local.json"),
		filepath.Join(".claude", "settings.json"),
		filepath.Join(getenv("HOME"), ".claude", "settings.json"),
	} {
		if settingsWantBedrock(path) {
			return backendName(true)
		}
	}
	return backendName(false)
}

func backendName(bedrock bool) string {
	if bedrock {
		return "bedrock"
	}
	return "anthropic"
}

// settingsWantBedrock reads one of claude's settings files. What is missing or
// malformed is silent: the file is not ours to judge.
func settingsWantBedrock(path string) bool {
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var settings struct {
		Env map[string]json.RawMessage `json:"env"`
	}
	if json.Unmarshal(b, &settings) != nil {
		return false
	}
	v := string(settings.Env[backendSwitch])
	return v == `"1"` || v == "1"
}

// resolveModel returns what alias stands for on a backend, or alias itself. A
// models.json beside the program takes the place of the built-in registry, so
// that aliases can be added and removed without a new program.
func resolveModel(alias, backend, programDir string) string {
	beside, _ := os.ReadFile(filepath.Join(programDir, "models.json")) // usually there is none
	for _, registry := range [][]byte{beside, builtinModels} {
		var models map[string]map[string]string
		if json.Unmarshal(registry, &models) != nil {
			continue
		}
		if model := models[alias][backend]; model != "" {
			return model
		}
		break
	}
	return alias
}

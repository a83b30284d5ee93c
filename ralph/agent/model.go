package agent

import (
	"bytes"
	_ "embed" // for the built-in registry
	"encoding/json"
	"os"
	"path/filepath"
)

//go:embed models.json
var builtinModels []byte

// Models returns the built-in models.json.
func Models() []byte { return bytes.Clone(builtinModels) }

const backendSwitch = "CLAUDE_CODE_USE_BEDROCK"

// claudeBackend returns "bedrock" or "anthropic". The environment takes precedence;
// otherwise any settings file can enable bedrock.
func claudeBackend(getenv func(string) string) string {
	if v := getenv(backendSwitch); v != "" {
		return backendName(v == "1")
	}
	for _, path := range []string{
		filepath.Join(".claude", "settings.local.json"),
		filepath.Join(".claude", "settings.json"),
		filepath.Join(getenv("HOME"), ".claude", "settings.json"),
	} {
		if settingsEnableBedrock(path) {
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

// settingsEnableBedrock reads a settings file. A missing or malformed one is ignored.
func settingsEnableBedrock(path string) bool {
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

// resolveModel resolves an alias for a backend, or returns it unchanged. A models.json
// next to the program replaces the built-in registry.
func resolveModel(alias, backend, programDir string) string {
	beside, _ := os.ReadFile(filepath.Join(programDir, "models.json"))
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

package agent

import "bytes"

// Models returns the built-in registry of models as the content of a
// models.json.
func Models() []byte { return bytes.Clone(builtinModels) }

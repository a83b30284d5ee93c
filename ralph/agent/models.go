package agent

import "bytes"

// Models returns the built-in models.json.
func Models() []byte { return bytes.Clone(builtinModels) }

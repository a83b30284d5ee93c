package container

import (
	"crypto/sha256"
	"encoding/hex"
)

// CacheVolume names the volume with the caches of a repository, by the path of
// its main work tree.
func CacheVolume(mainRoot string) string {
	sum := sha256.Sum256([]byte(mainRoot))
	return "ralph-cache-" + hex.EncodeToString(sum[:])[:12]
}

package projectimage

// The labels of our images.
const (
	labelPrefix    = "io.github.docker-ralph."
	labelCreatedBy = labelPrefix + "created-by"
	labelKind      = labelPrefix + "kind"
	labelAgent     = labelPrefix + "agent"
	labelProject   = labelPrefix + "project"
	labelDigest    = labelPrefix + "digest"  // of all that the image is built from
	labelBase      = labelPrefix + "base"    // reference of the image below
	labelBaseID    = labelPrefix + "base-id" // ID of that image at the time

	createdBy   = "docker-ralph"
	kindAgent   = "agent"
	kindProject = "project"
)

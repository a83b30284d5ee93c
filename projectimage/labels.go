package projectimage

// The labels of images that are built here, by which they are found again.
const (
	labelPrefix    = "io.github.docker-ralph."
	labelCreatedBy = labelPrefix + "created-by"
	labelKind      = labelPrefix + "kind"
	labelAgent     = labelPrefix + "agent"
	labelProject   = labelPrefix + "project"
	labelBase      = labelPrefix + "base"    // reference of the image that it is built on
	labelBaseID    = labelPrefix + "base-id" // the engine's ID of that image at the time

	createdBy   = "docker-ralph"
	kindAgent   = "agent"
	kindProject = "project"
)

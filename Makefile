# Run "make help" for the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X github.com/docker-ralph/docker-ralph/plugin/metadata.Version=$(VERSION)
# Builds are reproducible: no paths of the build machine, no version control stamp.
GO := "$$(scripts/go.sh)"
GO_BUILD := env CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)"

# All packages but the end-to-end tests.
PACKAGES = $$($(GO) list ./... | grep -v -e '/e2e$$' -e '/e2e/')

# The same flags as the build, so that nothing is compiled twice.
AS_BUILT := CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath"

GUESTS := lifecycle/guestbin/files
GUEST_ARCHS := amd64 arm64
PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64
SHELL_FILES = .ci/run $(shell find scripts -name '*.sh' | sort)

##@ Use
.PHONY: quickstart
quickstart: ## set up everything on Debian or Ubuntu and run a first loop (YES=1: no questions)
	@scripts/quickstart.sh $(if $(YES),--yes)

.PHONY: install
install: build ## build the plugin and install it for your Docker CLI
	@scripts/install.sh

.PHONY: uninstall
uninstall: ## remove the plugin; sandboxes and state stay
	@scripts/install.sh --uninstall

##@ Build
.PHONY: build
build: guests ## build bin/docker-ralph with its guest programs
	@scripts/waiting.sh "compiling docker-ralph" $(GO_BUILD) -o bin/docker-ralph ./cmd/docker-ralph

# Always run: Go knows what has changed, and pack keeps the archives of unchanged programs.
.PHONY: guests
guests: $(GUEST_ARCHS:%=guests-%)

.PHONY: $(GUEST_ARCHS:%=guests-%)
$(GUEST_ARCHS:%=guests-%): guests-%:
	@scripts/waiting.sh "compiling ralph and ralph-egress for linux-$*" \
		env GOOS=linux GOARCH=$* $(GO_BUILD) -o bin/linux-$*/ ./cmd/ralph ./cmd/ralph-egress
	@$(GO) run ./scripts/pack $(GUESTS)/linux-$*.tar.zst bin/linux-$*/ralph bin/linux-$*/ralph-egress

.PHONY: cross
cross: $(PLATFORMS:%=cross-%) ## build the plugin for linux, darwin and windows on amd64 and arm64

.PHONY: $(PLATFORMS:%=cross-%)
$(PLATFORMS:%=cross-%): cross-%: guests
	@$(eval os := $(word 1,$(subst -, ,$*)))
	GOOS=$(os) GOARCH=$(word 2,$(subst -, ,$*)) \
		$(GO_BUILD) -o bin/docker-ralph-$*$(if $(filter windows,$(os)),.exe) ./cmd/docker-ralph

# "make dist" at a tag gives the same bytes everywhere.
DIST := dist
.PHONY: dist
dist: cross ## build the files of a release in dist/
	rm -rf $(DIST) bin/share
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(AS_BUILT) $(GO) run ./docs/generate --release bin/share
	nfpm=$$(scripts/tools.sh nfpm) && PATH="$$(dirname $(GO)):$$PATH" \
		$(AS_BUILT) $(GO) run ./scripts/release --nfpm "$$nfpm" $(VERSION) bin/share bin $(DIST) $(PLATFORMS)

##@ Check
.PHONY: test
test: build-here ## run all tests on a real engine, started for them
	@scripts/test.sh

.PHONY: test-all
test-all: build-here ## run them on both engines, with all drivers and remote engines
	@ENGINES=all scripts/test.sh

.PHONY: test-dist
test-dist: ## test dist/ on bare machines: packages, archives, the image, upgrade and removal
	@RALPH_TEST_DIST="$$PWD/dist" scripts/test.sh ./e2e -run '^TestDist'

# The engines of the tests run on this machine: they need no programs for another.
.PHONY: build-here
build-here:
	@$(MAKE) build GUEST_ARCHS="$$($(GO) env GOARCH)"

.PHONY: test-unit
test-unit: ## run the tests that need no engine
	GORACE=atexit_sleep_ms=0 $(GO) test -race "-gcflags=modernc.org/...=-race=false" -shuffle=on $(PACKAGES)

# Those that run on macOS, too: the others need Linux, in their code or in their tests.
CLIENT := hint lazyregexp scopes config wire gitrepo plugin
.PHONY: test-client
test-client: guests ## run the unit tests of packages that are not for Linux only
	$(GO) test -shuffle=on $(CLIENT:%=./%/...)

# No race detector and no shuffling, so that Go caches the results of unchanged packages. Without DWARF,
# as linking is most of the work. Several packages mostly wait: four run at a time.
.PHONY: test-fast
test-fast: guests ## run the quick unit tests of changed packages
	env -u RALPH_TEST_ENGINES $(GO) test -short -p 4 -ldflags=-w $(PACKAGES)

PRODUCT = $$($(GO) list ./... | grep -v -e /e2e -e /internal/ -e /scripts/ -e /docs | paste -sd,)
.PHONY: cover
cover: ## measure how much of the product the tests cover, without end-to-end tests
	$(GO) test -coverprofile=coverage.out -coverpkg="$(PRODUCT)" $(PACKAGES) | sed 's/coverage:.*//'
	@$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: bench
bench: build-here ## measure speed, beside docker and sqlite3
	@scripts/bench.sh

.PHONY: lint
lint: lint-go lint-shell ## golangci-lint, go vet, shellcheck

.PHONY: lint-go
lint-go:
	$(AS_BUILT) $(GO) vet ./...
	PATH="$$(dirname $(GO)):$$PATH" $(AS_BUILT) "$$(scripts/tools.sh golangci-lint)" run ./...

# Type errors are what changes cause on other systems: nothing is compiled to find them. The programs in the sandbox,
# and the tests, are for Linux.
.PHONY: vet-others
vet-others: ## check the types of the plugin for darwin and windows
	@$(AS_BUILT) $(GO) build -o bin/typecheck ./scripts/typecheck
	@for os in darwin windows; do \
		export CGO_ENABLED=0 GOOS=$$os; \
		scripts/waiting.sh "checking types for $$os" \
			bin/typecheck $$($(GO) list -deps ./cmd/docker-ralph | grep ^github.com/docker-ralph/); \
	done

.PHONY: lint-shell
lint-shell:
	@scripts/shellcheck.sh $(SHELL_FILES)

.PHONY: fmt
fmt: ## format Go code the way lint wants it
	"$$(scripts/tools.sh golangci-lint)" fmt ./...

.PHONY: docs
docs: ## generate docs/reference
	$(AS_BUILT) $(GO) run ./docs/generate

.PHONY: docs-check
docs-check: ## fail if docs/reference is not what "make docs" writes
	$(AS_BUILT) $(GO) run ./docs/generate --check

##@ Other
.PHONY: clean
clean: ## delete build output; tools and images stay in the cache
	rm -rf bin dist coverage.out $(GUESTS)/*.zst $(GUESTS)/*.sha256 $(GUESTS)/.*.new

.PHONY: help
help: ## print this help
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

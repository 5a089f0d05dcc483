# `make` lists the targets. Only Go and make are needed for demo and test; the rest fetches pinned tools through the module proxy.

GO       ?= go
TOOL     := $(GO) tool -modfile=scripts/tools/go.mod
FUZZTIME ?= 30s
TIME     ?= 10m

# Releases are built with this toolchain, so this is the one to look for known vulnerabilities in.
RELEASE_TOOLCHAIN ?= go1.26.11

# How the program is built: for build, for GoReleaser and for the Dockerfile. The client speaks HTTP/1.1 alone, so half a megabyte of
# HTTP/2 can stay out. With RELEASE=yes it says that it is a release, and the same source gives the same bytes wherever it lies.
RELEASE       ?=
BUILD_LDFLAGS = -s -w$(if $(RELEASE), -X github.com/loopgridio/loopgrid-mcp/internal/cli.release=yes)
BUILD_FLAGS   = -trimpath -tags=nethttpomithttp2 $(if $(RELEASE),-buildvcs=false) '-ldflags=$(BUILD_LDFLAGS)'
BUILD         = CGO_ENABLED=0 BUILD_LDFLAGS="$(BUILD_LDFLAGS)" GOFLAGS="$(BUILD_FLAGS)"

GOVULNCHECK       := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB            := golang.org/x/vulndb

GORELEASER_VERSION := v2.17.0
GORELEASER         := bin/goreleaser-$(GORELEASER_VERSION)

VERSION    := $(shell sed -n 's/^const Version = "\(.*\)"$$/\1/p' internal/cli/version.go)

.DEFAULT_GOAL := help
.PHONY: help build demo test check vet race lint licenses release-check fuzz bench bench-test model-test soak hosts-check host-test page-test update vuln dist dist-reproducible dist-test image-test publish-test validate clean

help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

OUTPUT ?= bin/
build: ## Build bin/loopgrid-mcp with the flags of a release.
	$(BUILD) $(GO) build -o $(OUTPUT) ./cmd/loopgrid-mcp

demo: ## Walk a refund from proposal to signed evidence, against an embedded LoopGrid.
	@echo "Building the demo; the first build takes about a minute."
	@$(GO) run ./examples/quickstart

test: ## Run all tests; they need no network.
	$(GO) test ./...

check: vet race lint licenses release-check ## Everything a change must pass besides the tests.

vet: ## Vet for Linux, macOS and Windows.
	GOOS=linux $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

race: ## Run the tests under the race detector, where there is a C compiler.
	@if printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | $$($(GO) env CC) -x c -o /dev/null - 2>/dev/null; then \
		echo "$(GO) test -race ./..."; CGO_ENABLED=1 $(GO) test -race ./...; \
	else \
		echo "race: skipped, the race detector needs a C compiler and $$($(GO) env CC) does not work here"; \
	fi

lint: ## Lint with the pinned golangci-lint.
	$(TOOL) golangci-lint config verify
	$(TOOL) golangci-lint run

licenses: ## Check the licences of what is built into the program.
	$(GO) run ./scripts/licenses

release-check: ## Look for secrets, local paths, stray files and versions that disagree.
	$(GO) run ./scripts/release-check

fuzz: ## Run each fuzz target for FUZZTIME (30s).
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$package" || exit 1; \
		done; \
	done

bench: ## Measure the bridge side by side with its references.
	$(GO) run ./scripts/bench

PROGRAMS ?= 600
model-test: ## Run PROGRAMS (600) random programs of calls and faults against the ledger; make test runs 100.
	LOOPGRID_MODEL_PROGRAMS=$(PROGRAMS) $(GO) test -count=1 ./internal/bridge -run '^TestModel$$'

bench-test: ## Test that the benchmark measures everything.
	LOOPGRID_BENCH_TEST=1 $(GO) test -count=1 ./scripts/bench

soak: ## Run the model test for TIME (10m), and look whether memory, goroutines or descriptors grow.
	LOOPGRID_MODEL_TIME=$(TIME) $(GO) test ./internal/bridge -run '^TestModelLong$$' -timeout 0 -v

hosts-check: ## Vet, lint and test the module of the host tests, whose programs of others are not needed for it.
	cd scripts/hosts && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test ./... && $(GO) tool -modfile=../tools/go.mod golangci-lint run

host-test: ## Try the program in real AI hosts and clients; fetches them with npm and pip, about two gigabytes, once.
	$(GO) -C scripts/hosts run ./host-test
	$(GO) -C scripts/hosts run ./review-test

CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

page-test: ## Try the sandbox's page in headless Chromium; UPDATE_GOLDEN=1 takes its picture for the README anew.
	@if [ -n "$(CHROMIUM)" ]; then \
		CHROMIUM="$(CHROMIUM)" $(GO) test -count=1 ./internal/cli -run InABrowser; \
	else \
		echo "page-test: skipped, there is no Chromium here; set CHROMIUM to its path"; \
	fi

update: ## Write all goldens, generated documents and examples anew.
	UPDATE_GOLDEN=1 $(GO) test -count=1 $$(grep -rl --include='*_test.go' 'internal/golden"' cmd internal scripts | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	cd scripts/hosts && $(GO) mod tidy

vuln: ## Look for known vulnerabilities with a local copy of the Go database.
	$(GO) mod download $(VULNDB)@latest
	$(GO) run $(VULNDB)/cmd/indexdb@latest -vulns "$$($(GO) list -m -f '{{.Dir}}' $(VULNDB)@latest)/data/osv" -out bin/vulndb
	GOTOOLCHAIN=$(RELEASE_TOOLCHAIN) $(GO) run $(GOVULNCHECK) -db "file://$(CURDIR)/bin/vulndb" ./...

# It takes minutes and 3 GB, once.
$(GORELEASER):
	GOTOOLCHAIN=$(RELEASE_TOOLCHAIN) GOBIN="$(CURDIR)/bin/tmp" $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	mv bin/tmp/goreleaser $@

dist: export GOTOOLCHAIN = $(RELEASE_TOOLCHAIN)
dist: RELEASE = yes
dist: $(GORELEASER) ## Build every artefact of a release into dist/.
	$(GO) run ./scripts/licenses -notices bin/THIRD-PARTY-NOTICES.txt
	$(BUILD) VERSION=$(VERSION) $(GORELEASER) release --snapshot --clean --skip=publish,announce --parallelism 1
	$(GO) run ./scripts/package

dist-reproducible: ## Build a release twice, the second time elsewhere, and compare; takes minutes.
	$(MAKE) dist
	rm -rf bin/again && git clone --quiet --no-hardlinks . bin/again && mkdir bin/again/bin && cp $(GORELEASER) bin/again/bin/
	GOCACHE="$(CURDIR)/bin/again/cache" $(MAKE) -C bin/again dist
	cd bin/again/dist && sha256sum --check --quiet ../../../dist/checksums.txt && cmp checksums.txt ../../../dist/checksums.txt
	rm -rf bin/again

IMAGE  ?= loopgrid-mcp:test
ENGINE ?= docker
image-test: ## Build the container image, and go through a session in it; needs Docker or Podman (ENGINE=podman).
	$(ENGINE) build $(IMAGE_FLAGS) --build-arg RELEASE=yes --tag $(IMAGE) .
	$(GO) run ./scripts/dist-test -image $(IMAGE) -engine $(ENGINE)

publish-test: ## Publish dist twice to registries on this machine; needs npm and uv.
	$(GO) run ./scripts/publish-test

dist-test: ## Install each artefact of dist/ for this platform from disk, and use it.
	$(GO) run ./scripts/dist-test

validate: ## Run everything that a release is validated by, and write VALIDATION.md; takes an hour.
	$(GO) run ./scripts/validate

clean: ## Remove what was built.
	rm -rf bin dist

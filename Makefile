# Everything here needs Go and make; what else is missing, `setup` installs.
GO       ?= go
FUZZTIME ?= 20s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PREFIX   ?= /usr/local

BIN      := bin/threadmill
LDFLAGS  := -s -w -X main.version=$(VERSION)

# Tools are pinned here and built into bin/, so go.mod knows nothing of them.
GOLANGCI_VERSION := v2.15.0
DEADCODE_VERSION := v0.52.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)
DEADCODE := bin/deadcode-$(DEADCODE_VERSION)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: setup build ## Install what is missing, build, start the service with no configuration
	./$(BIN) serve

.PHONY: build
build: ## Build bin/threadmill
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/threadmill

.PHONY: install
install: build ## Copy the binary to PREFIX/bin
	install -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/threadmill

.PHONY: setup
setup: ## Install tmux where it is missing
	@deploy/setup.sh tmux

.PHONY: setup-test
setup-test:
	@deploy/setup.sh tmux cc chromium

.PHONY: test
test: setup-test ## Install what is missing, run all tests with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 10m ./...

.PHONY: lint
lint: $(GOLANGCI) $(DEADCODE) ## Check style, budgets, the import graph, both systems, go.mod, dead code
	$(GOLANGCI) run
	GOOS=darwin $(GO) vet ./...
	$(GO) mod tidy -diff
	@dead=$$($(DEADCODE) -test -tags soak,bench,conformance ./...) && test -z "$$dead" || { echo "$$dead"; exit 1; }

.PHONY: fmt
fmt: $(GOLANGCI) ## Format the code as lint wants it
	$(GOLANGCI) fmt

# A second try, because go test sometimes fails just when the time is over ("context deadline
# exceeded"). What was really found is kept in testdata and fails again at once.
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	while IFS=: read -r file name; do \
		target=$${name#func }; \
		echo "== $$target in $$(dirname "$$file")"; \
		set -- -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; \
		$(GO) test "$$@" </dev/null || $(GO) test "$$@" </dev/null || exit 1; \
	done

.PHONY: soak
soak: setup ## Kill the service and the tmux server under load, the full number of rounds
	$(GO) test -run Soak -tags soak -v -timeout 60m ./cmd/threadmill/

.PHONY: conformance
conformance: setup ## Drive real versions of Claude Code, from npm, through the service
	@GO=$(GO) adapters/claude/conformance.sh

.PHONY: bench
bench: setup ## Measure what docs/BENCHMARKS.md publishes
	$(GO) test -tags bench -run TestBench -v -timeout 30m ./cmd/threadmill/

.PHONY: screenshots
screenshots: setup-test ## Take the pictures of docs/images again
	THREADMILL_SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -run TestScreenshots -count=1 ./cmd/threadmill/

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist coverage.out

# $(call install-tool,PACKAGE@VERSION,FILE) builds a tool under a name that carries its version.
define install-tool
	@mkdir -p bin/.tools
	GOBIN=$(CURDIR)/bin/.tools GOFLAGS= $(GO) install $(1)
	@mv bin/.tools/$(notdir $(firstword $(subst @, ,$(1)))) $(2)
	@rmdir bin/.tools 2>/dev/null || true
endef

$(GOLANGCI):
	$(call install-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION),$@)

$(DEADCODE):
	$(call install-tool,golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION),$@)

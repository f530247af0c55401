# What a person can do here: make help.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Each module is built as its users build it; go.work is for editors.
export GOWORK := off
# Neither tests nor tools need to know the revision.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)
# Races inside of what the tests use, each with its reason.
export GORACE := suppressions=$(CURDIR)/integration/race-suppressions.txt

FUZZTIME  ?= 5s
BENCH     ?= .
COUNT     ?= 6
BENCHTIME ?= 0.5s
TRANSPORT ?= rabbitmq

MODULES := . $(sort $(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod)))
# The module whose go.mod holds a version that nothing imports.
TIDY    := $(filter-out tools/vulncheck,$(MODULES))
# The modules that are not about our own code.
SCANNED := $(filter-out tools tools/vulncheck,$(MODULES))

TOOLS   := bin/golangci-lint
TESTRUN := bin/testrun -skips integration/skips.txt

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  FUZZTIME=$(FUZZTIME) (test, fuzz), BENCH=$(BENCH) BENCHTIME=$(BENCHTIME) COUNT=$(COUNT) (bench)'
	@echo '  TRANSPORT=$(TRANSPORT) (demo), or kafka, nats, redis, redis-channels, sqs, sns, googlecloud, gochannel'

.PHONY: test
test: bin/testrun ## all tests that need no server, with the race detector, and a moment of fuzzing
	$(TESTRUN) \
		'tools: test tools ./...' \
		'vulncheck: test tools/vulncheck ./...' \
		'root: test . -race -shuffle=on ./...' \
		'blobstore: test claimcheck/blobstore -race -shuffle=on ./...' \
		'pgxoutbox: test outbox/pgxoutbox -race -shuffle=on ./...' \
		'googlecloudwire: test marshaler/googlecloudwire -race -shuffle=on ./...' \
		'embedded: test integration -race ./embedded/... ./internal/... ./servers/...' \
		'demo: test examples ./...' \
		'fuzz: fuzz . $(FUZZTIME) ./...' \
		'fuzz googlecloudwire: fuzz marshaler/googlecloudwire $(FUZZTIME) ./...'

.PHONY: demo
demo: ## signed webhooks from HTTP to Kafka to TRANSPORT, then orders through an outbox; all embedded
	cd examples && go run ./demo -transport $(TRANSPORT)
	@echo
	cd examples && go run ./orders

.PHONY: fuzz
fuzz: bin/testrun ## every fuzz target, for FUZZTIME each
	$(TESTRUN) 'fuzz: fuzz . $(FUZZTIME) ./...' 'fuzz googlecloudwire: fuzz marshaler/googlecloudwire $(FUZZTIME) ./...'

.PHONY: integration
integration: bin/testrun ## the flows against real servers and peers, which it installs, at a tenth of the full counts
	ENVELOPE_SCALE=0.1 $(TESTRUN) $(PREPARE) 'real: test integration -count=1 -timeout 25m ./real/... ./rabbit/... ./peers/... ./hexeract/... ./database/... ./matrix/...'

.PHONY: soak
soak: bin/testrun ## the same with the full counts
	ENVELOPE_SCALE=1 $(TESTRUN) $(PREPARE) \
		'embedded: test integration -count=1 -timeout 60m ./embedded/...' \
		'real: test integration -count=1 -timeout 120m ./real/... ./rabbit/... ./peers/... ./hexeract/... ./database/... ./matrix/...'

PREPARE = \
	'install: run integration/install.sh' \
	'download: run go run -C integration ./cmd/download' \
	'compile: run go test -C integration -c -o /dev/null ./embedded/... ./real/... ./rabbit/... ./peers/... ./hexeract/... ./database/... ./matrix/...'

.PHONY: matrix
matrix: bin/testrun ## print the table of all pairs of transports that messages pass between unchanged
	$(TESTRUN) $(PREPARE)
	cd integration/matrix && go test -count=1 -timeout 10m -run TestMatrix

.PHONY: bench
bench: bin/benchstat ## the benchmarks COUNT times in turn, then benchstat over bin/bench.txt
	@mkdir -p bin
	for i in $$(seq $(COUNT)); do go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...; done | tee bin/bench.txt
	bin/benchstat bin/bench.txt

.PHONY: bench-kafka
bench-kafka: bin/benchstat ## a whole hop over real Kafka, bare and with all of ours, nine times in turn
	@mkdir -p bin
	go run -C integration ./cmd/download
	go test -C integration -run '^$$' -bench KafkaHop -benchtime 10000x -timeout 30m ./bench | tee bin/bench-kafka.txt
	bin/benchstat -col /way -ignore /run bin/bench-kafka.txt

.PHONY: lint
lint: $(TOOLS) bin/vulncheck bin/modlist ## the linter, formats, tidy modules, the modules users build, known vulnerabilities
	@failed=; \
	for m in $(MODULES); do \
		echo "lint $$m"; (cd $$m && $(CURDIR)/bin/golangci-lint run ./...) || failed=yes; \
	done; \
	for m in $(TIDY); do \
		echo "tidy $$m"; (cd $$m && go mod tidy -diff) || failed=yes; \
	done; \
	bin/modlist . tools/modules.golden || failed=yes; \
	bin/modlist claimcheck/blobstore tools/modules-blobstore.golden || failed=yes; \
	bin/modlist outbox/pgxoutbox tools/modules-pgxoutbox.golden || failed=yes; \
	bin/modlist marshaler/googlecloudwire tools/modules-googlecloudwire.golden || failed=yes; \
	(cd tools/vulncheck && $(CURDIR)/bin/vulncheck $(CURDIR)/bin/govulncheck $(addprefix $(CURDIR)/,$(SCANNED))) || failed=yes; \
	[ -z "$$failed" ]

.PHONY: fmt
fmt: $(TOOLS) ## write every file in the format that lint wants
	for m in $(MODULES); do (cd $$m && $(CURDIR)/bin/golangci-lint fmt ./...); done

.PHONY: modules
modules: bin/modlist ## write the list of the modules that a user of each package builds
	bin/modlist -update . tools/modules.golden
	bin/modlist -update claimcheck/blobstore tools/modules-blobstore.golden
	bin/modlist -update outbox/pgxoutbox tools/modules-pgxoutbox.golden
	bin/modlist -update marshaler/googlecloudwire tools/modules-googlecloudwire.golden

.PHONY: watch
watch: $(TOOLS) ## run a package's tests when a file of it changes
	bin/gotestsum --watch --format testname

.PHONY: clean
clean: ## remove what was built; downloads stay in the user's cache folder
	rm -rf bin

# The development tools, in the versions of tools/go.mod.
$(TOOLS) bin/benchstat: tools/go.mod tools/go.sum
	go build -C tools -o $(CURDIR)/bin/ tool
	touch $(TOOLS) bin/benchstat

bin/testrun bin/modlist: bin/%: $(wildcard tools/*/*.go) tools/go.mod
	go build -C tools -o $(CURDIR)/$@ ./$*

bin/vulncheck: $(wildcard tools/vulncheck/*)
	go build -C tools/vulncheck -o $(CURDIR)/$@ .

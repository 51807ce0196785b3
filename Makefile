# Muster. `make help` lists the targets.

SHELL     := /bin/bash
GO        ?= go
BIN       := $(CURDIR)/bin
IMAGE     ?= muster-scheduler:dev
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git describe --always --abbrev=40 --match=- --dirty 2>/dev/null || echo unknown)
TOOL       = $(GO) tool -modfile=tools/go.mod
# The time in all files of a release: the commit's, so that they are the same whenever they are made.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# The packages in which goroutines share state: their source has a lock, an atomic value or a goroutine of its own.
CONCURRENT = $(shell grep -lrE --include='*.go' --exclude='*_test.go' 'sync\.(Mutex|RWMutex|Once|Map)|atomic\.|memo\.Map|go func|\.Go\b' pkg cmd | xargs -n1 dirname | sort -u | grep -v '^pkg/kube/simulate$$' | sed 's,^,./,')

# What a release needs: each of these targets runs in parts (release/checks), and each green part writes a line into CHECKS.
# A recorded part does not run again. PART="core|kube" is only those; CHECKS=bin/checks.txt knows no earlier records.
CHECKS    ?= release/checks.txt
CHECK      = $(GO) run ./release/run -records '$(CHECKS)' -part '$(PART)'

# Kubernetes says the version of the scheduler from these, and pkg/version which Muster it is.
K8S       := v1.37.0
MODULE    := github.com/muster-scheduler/muster
LDFLAGS   := -X $(MODULE)/pkg/version.version=$(VERSION) -X $(MODULE)/pkg/version.commit=$(COMMIT) \
             -X k8s.io/component-base/version.gitVersion=$(K8S) \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37 \
             -X k8s.io/component-base/version.gitTreeState=$(if $(findstring -dirty,$(COMMIT)),dirty,clean) \
             -X k8s.io/component-base/version.gitCommit=$(COMMIT)

.DEFAULT_GOAL := help
.PHONY: help build demo test ui-shots e2e e2e-versions e2e-controllers e2e-kind sim promises nightly release-checks vuln check words house cases race bench bench-devices bench-quick bench-churn bench-quality bench-quality-quick quality-smoke bench-repair bench-time bench-core bench-scale bench-explain generate generate-check lint image image-check manifests mutants race-all release clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(BIN)/muster-scheduler $(BIN)/muster-controller $(BIN)/musterctl ## build the programs into bin/

.PHONY: kubectl-plugin
kubectl-plugin: $(BIN)/musterctl ## make bin/kubectl-muster, which is "kubectl muster" when bin/ is in the PATH
	@ln -sf musterctl $(BIN)/kubectl-muster

.PHONY: $(BIN)/muster-scheduler $(BIN)/muster-controller $(BIN)/musterctl
$(BIN)/muster-scheduler $(BIN)/muster-controller $(BIN)/musterctl:
	@echo "building $(notdir $@) (a few minutes the first time)"
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '-s -w $(LDFLAGS)' -o $@ ./cmd/$(notdir $@)

# The first command needs musterctl alone, so that its result is there before the scheduler and the control plane are built.
demo: $(BIN)/musterctl ## both documented examples in memory, then with one for GPUs and one for quotas on a local control plane
	@$(BIN)/musterctl demo --without-cluster
	@$(MAKE) --no-print-directory $(BIN)/muster-scheduler
	@$(BIN)/musterctl demo

# "make check" vets. The vet of "go test" would read all dependencies once more, which takes minutes from cold.
test: build control-plane ## unit tests, properties, scenarios, and e2e on the local control plane
	@echo "go test, without e2e"
	@$(GO) test -vet=off -timeout 20m $$($(GO) list ./... | grep -v '/test/e2e$$')
	$(MAKE) --no-print-directory e2e

# Without Chromium (apt-get install --no-install-recommends chromium) there are none. With it, 15,000 nodes are measured, too.
ui-shots: ## pictures of the page of "musterctl ui" in Chromium, into bin/ui-shots
	UI_SHOTS='$(or $(UI_SHOTS),$(BIN)/ui-shots)' $(GO) test -count=1 -v -run '^TestBrowser' ./pkg/page

.PHONY: control-plane
control-plane: $(BIN)/musterctl
	@$(BIN)/musterctl cluster build

e2e: build control-plane ## the scheduler as a process on the local control plane, or on E2E_KUBECONFIG
	MUSTERCTL_BIN=$(BIN)/musterctl MUSTER_CONTROLLER_BIN=$(BIN)/muster-controller \
	  $(GO) test -vet=off -count=1 -timeout 30m -v ./test/e2e/...

# Both examples, restart, preemption, devices, admission policies and installation: what depends on the version.
VERSIONS ?= 1.34
OLDER    := example-1|example-2|restart|preempt-ordinary|evict-gang|dra-pod|admission-annotations|install|process|api-server-old|native-1-35
e2e-versions: build ## the same on API servers of older versions, and the demo; VERSIONS="1.34 1.35 1.36"
	@for v in $(VERSIONS); do \
	  $(BIN)/musterctl cluster build --kubernetes-version $$v && \
	  E2E_KUBERNETES_VERSION=$$v $(GO) test -count=1 -timeout 20m -v -run '^TestScripts$$/^($(OLDER))$$' ./test/e2e && \
	  $(BIN)/musterctl demo --kubernetes-version $$v || exit 1; done

# They are built from source first, which takes minutes once. PART="lws|jobset" is only those scripts.
e2e-controllers: ## the controllers of LeaderWorkerSet, JobSet, Kubeflow Trainer, MPI Operator and Kueue beside the scheduler; Koordinator's scheduler
	@$(CHECK) $@

# Needs Docker, mmdebstrap and a static libc (libc6-dev), no registry; what it makes in Docker goes when it ends, also by Ctrl-C.
# STEPS="together|drain" are the installation and those, without a record; KIND_NODE=kindest has Docker fetch kind's own node image (not run so far).
e2e-kind: ## the scheduler as it is installed, on real kubelets and containers: a cluster of kind
	@$(if $(STEPS),E2E_KIND='$(STEPS)' $(GO) test -count=1 -timeout 60m -v -run '^TestKind$$' ./test/e2ekind,$(CHECK) $@)

# With SEED one world, without it 200 from a seed drawn by lot; WORLDS says how many.
sim: ## random histories of whole clusters; SEED=… repeats one, WORLDS=… says how many
	$(GO) test -count=1 -timeout 6h -v -run '^TestWorlds$$' ./pkg/kube/simulate \
	  -args -sim.shrink -sim.seed=$(or $(SEED),0) -sim.worlds=$(or $(WORLDS),$(if $(SEED),1,200)) -sim.with="$(WITH)"

# They are played in parts of 1,000, one part on each processor.
promises: ## random histories of promised starts; SEED=… is the first, HISTORIES=… says how many, in thousands (10000)
	@mkdir -p $(BIN) && $(GO) test -vet=off -c -o $(BIN)/simulate.test ./pkg/kube/simulate
	@set -o pipefail; cd pkg/kube/simulate && first=$(or $(SEED),1) && seq $$first 1000 $$((first + $(or $(HISTORIES),10000) - 1)) | \
	  xargs -P $$(nproc) -I@ sh -c '$(BIN)/simulate.test -test.run "^TestPromises$$" -test.timeout 2h -promise.seed=@ && echo "kept from SEED=@"'

# What takes longer than CI may: all random worlds from new seeds (test/seed), 10,000 random histories, older API servers, the image twice, vuln.
nightly: ## all that takes longer than CI may, in parts: hours; PART=worlds-01 is one; release-checks lists them
	@$(CHECK) $@

release-checks: ## which parts of nightly, e2e-kind, e2e-controllers, mutants and race-all have a record for these files
	@$(CHECK)

# VULN_DB=file:///… or another mirror of the database, where vuln.go.dev cannot be reached.
vuln: ## known weaknesses that the programs reach, as govulncheck finds them; it asks vuln.go.dev
	@$(TOOL) govulncheck $(if $(VULN_DB),-db='$(VULN_DB)') ./cmd/...

check: words ## formatting, vet, staticcheck, revive, words, the arrows between packages
	@unformatted=$$($(TOOL) gofumpt -l cmd pkg test manifests deploy release); \
	  if [ -n "$$unformatted" ]; then echo "gofumpt -w these: $$unformatted"; exit 1; fi
	@mkdir -p $(BIN) && $(GO) build -o $(BIN)/vet ./test/vet
	VET=$$($(GO) tool -n vet) $(GO) vet -vettool=$(BIN)/vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) revive -config tools/revive.toml -formatter plain ./...
	$(GO) test ./test/arch

words: ## pages, comments and messages by the rules of tools/words, with Vale
	$(GO) run ./test/words

house: ## how large and how tangled the source is: figures, limits and targets
	@$(GO) run ./test/house/report

cases: ## the cases that must hold, by number: docs/contributing/cases.md; which are open
	@$(GO) test -count=1 -v -run '^TestCases$$' ./test/cases

# One package at a time: their tests wait for conditions, which others would delay.
race: ## the packages in which goroutines share state, with the race detector
	$(GO) test -vet=off -race -short -p 1 $(CONCURRENT)

race-all: ## all packages with the race detector, in parts: an hour
	@$(CHECK) $@

mutants: ## the core, broken on purpose in each way of test/mutants, in parts: a named test must fail each time; hours
	@$(CHECK) $@

bench: build ## pods a second beside the stock scheduler and plain binding requests: table, bench.json, bench.svg
	$(GO) run ./test/perf -rounds 3 -json bench.json -svg bench.svg
	$(MAKE) --no-print-directory bench-devices

bench-devices: build ## GPUs by ResourceClaims, on 512 nodes: pods a second beside the stock scheduler and plain requests, about ten minutes; slots of such members
	$(GO) run ./test/perf -rounds 3 -nodes 512 -shapes 64x8x1c -contenders floor,stock,muster -running=false -json bench-devices.json
	$(GO) test -run '^$$' -bench 'BenchmarkClaims|BenchmarkNodes' -benchmem ./pkg/kube/ledger ./pkg/kube/deviceshare

bench-quick: build ## the same on 1,024 nodes, in about two minutes
	$(GO) run ./test/perf -nodes 1024 -shapes 32x8,8x64 -running=false -contenders floor,stock,stock-pinned,muster

bench-quality: build ## how well gangs are placed, beside the stock scheduler's and Koordinator's: whole, near, with few victims; remakes docs/measurements/quality.md; about three quarters of an hour
	$(GO) run ./test/quality -check muster -json bench-quality.json -svg docs/measurements/quality.svg -page docs/measurements/quality.md

bench-quality-quick: build ## the same in about five minutes, with the stock scheduler alone; fails on a partial gang, a broken Must or a needless victim of Muster's
	$(GO) run ./test/quality -for 12s -seeds 1 -contenders stock,muster -check muster

quality-smoke: build ## one short trace in which more comes than fits, to the stock scheduler and Muster; fails like bench-quality-quick; about a minute
	$(GO) run ./test/quality -traces rush -for 4s -seeds 1 -contenders stock,muster -check muster

bench-repair: ## what becomes of gangs that lose a node, in 30 virtual days on 400 nodes; remakes docs/measurements/repair.md; about ten processor minutes for each column and seed
	$(GO) run ./test/repair -seeds $(or $(SEEDS),1,2) -page docs/measurements/repair.md

bench-time: ## how long jobs wait with promised starts, on a virtual clock; remakes docs/measurements/backfill.md; SEEDS=1,2
	$(GO) run ./test/backfill -seeds $(or $(SEEDS),1) -page docs/measurements/backfill.md

bench-churn: build ## what 200 gangs cost that do not fit, while pods come and go; about half an hour
	$(GO) run ./test/perf -churn 5m -json bench-churn.json

bench-core: ## benchmarks of the core
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/topology/... ./pkg/offer/... ./pkg/plan/... ./pkg/mixed/... ./pkg/evict/... ./pkg/device/...

bench-scale: ## 15,000 nodes with 100 pods on each, 10,000 members, 8 layers: benchstat and growth; see docs/measurements/scale.md
	@rm -f bench-scale.txt
	set -o pipefail; $(GO) test -run '^$$' -bench . -skip '^BenchmarkExplain$$' -benchmem -benchtime 0.5s -count $(or $(COUNT),6) -timeout 90m ./test/scale | tee bench-scale.txt
	$(TOOL) benchstat bench-scale.txt
	$(GO) run ./test/scale/growth < bench-scale.txt

bench-explain: build ## "musterctl explain" as a process, of 5,000 nodes and 20,000 pods: time, processor time and peak memory
	$(GO) test -run '^$$' -bench '^BenchmarkExplain$$' -benchtime 5x ./test/scale

generate: ## deepcopy functions and CRDs from pkg/apis, docs/reference.md from all that it lists, the charts' files from manifests
	$(TOOL) controller-gen object crd paths=./pkg/apis/scheduling/... output:crd:dir=manifests/crd
	sed -f pkg/apis/scheduling/podgroups-x.sed manifests/crd/scheduling.sigs.k8s.io_podgroups.yaml > manifests/crd/scheduling.x-k8s.io_podgroups.yaml
	$(GO) run ./test/reference
	$(GO) run ./deploy/helm/sync

generate-check: generate ## fail if generated files are not what is committed
	@git diff --exit-code -- manifests/crd 'pkg/apis/**/zz_generated*' docs/reference.md deploy/helm || { echo "run make generate and commit the result"; exit 1; }

lint: ## golangci-lint, as configured in .golangci.yaml
	$(GO) tool -modfile=tools/lint/go.mod golangci-lint run ./...

# The files are the same whenever they are made of one commit with one version of Go.
RELEASE    = $(GO) run ./release -version '$(VERSION)' -commit '$(COMMIT)' -epoch '$(SOURCE_DATE_EPOCH)' -ldflags '$(LDFLAGS)'

ARCHES    ?= amd64,arm64
image: ## container image FROM scratch for amd64 and arm64, and what is in it; no Docker needed; IMAGE=name:tag
	@$(RELEASE) -image-only -image '$(IMAGE)' -arch '$(ARCHES)' -o $(BIN)/image
	@echo "in bin/image: docker load -i bin/image/muster-scheduler-$(VERSION)-image-linux-$$($(GO) env GOARCH).tar"

image-check: image ## fail if another folder and another time make another image
	@there=$$(mktemp -d); git clone -q . $$there && $(MAKE) --no-print-directory -C $$there image \
	  IMAGE='$(IMAGE)' VERSION='$(VERSION)' COMMIT='$(COMMIT)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' ARCHES='$(ARCHES)'; \
	  diff $(BIN)/image/SHA256SUMS $$there/bin/image/SHA256SUMS && echo "the same image"; ok=$$?; rm -rf $$there; exit $$ok

RELEASE_IMAGE ?= ghcr.io/muster-scheduler/muster-scheduler:$(VERSION)
# Only from a commit for whose files all of docs/contributing/release.md ran whole and was green; RELEASE_UNCHECKED=1 says in the notes what did not.
release: ## all that a maintainer uploads, into dist/: VERSION=v0.1.0; archives, images, charts, manifests, krew, bills of materials, checksums, notes
	@$(RELEASE) -image '$(RELEASE_IMAGE)' -checks $(CHECKS) $(if $(filter-out 0,$(RELEASE_UNCHECKED)),-unchecked) -o dist
	@ls -lh dist

# Rendered with deploy/'s own image, kustomize cannot fail. This does.
FROM      ?= deploy/base
KUSTOMIZE ?= kubectl kustomize
NO_IMAGE   = IMAGE: no registry has an image of Muster yet: build one with "make image IMAGE=REGISTRY/muster-scheduler:TAG", push it, and set IMAGE
manifests: ## what "kubectl apply --server-side -f -" takes, with your image: IMAGE=name:tag; FROM=deploy/base or another folder
	@$(if $(filter file,$(origin IMAGE)),echo '$(NO_IMAGE)' >&2; exit 1;) set -o pipefail; \
	  $(KUSTOMIZE) $(FROM) | sed 's,image: muster-scheduler:set-an-image--see-docs-admins-install$$,image: $(IMAGE),'

clean: ## remove what was built here; the cached control plane stays
	rm -rf $(BIN) dist

# Everything a newcomer needs: `make up` (run), `make test` (check). Nothing has to be installed by hand but Python 3.11+ and make.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
CLIENTS := .venv-clients
SITE := .venv-site
BIN := $(VENV)/bin
PEERS_CACHE ?= $(HOME)/.cache/muster/peers
export PEERS_CACHE
# What one process compiles, the hundreds that tests start need not compile again.
unexport PYTHONDONTWRITEBYTECODE
# Tests wait more than they compute: five workers fill two cores. Files stay together so that one server serves a whole file, and
# come in the order of tests/support/slowest_first.py: by xdist's own, most tests first, the slowest would come last and alone.
# What failed runs once more, alone; what passes then is printed as flaky.
AGAIN := $(BIN)/python -m tools.flaky
WORKERS ?= 5
XDIST ?= -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# There every worker has a real control plane of its own to start and to keep up.
test-kube: WORKERS = 4
test-interop: WORKERS = 2
# Upstream's webhook server has fixed ports, which pods of other tests use on addresses of their own.
ALONE := tests/interop/test_work_webhook.py

.PHONY: help setup lock clients site up down test suites test-kube test-interop bench lint format peers clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The environment itself, with the tool that fills it.
$(VENV)/.uv: requirements/bootstrap.lock
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  echo "python3-venv is missing; installing it"; \
	  apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }
	$(BIN)/pip install -q --require-hashes -r requirements/bootstrap.lock
	@touch $@

# What runs a fleet: no tool of developers.
$(VENV)/.runtime: $(VENV)/.uv requirements/up.lock pyproject.toml
	$(BIN)/uv pip install -q --system-certs --compile-bytecode --require-hashes -r requirements/up.lock
	$(BIN)/uv pip install -q --system-certs --no-deps --build-constraints requirements/dev.lock -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.installed: $(VENV)/.uv requirements/dev.lock pyproject.toml
	$(BIN)/uv pip sync -q --system-certs --compile-bytecode --require-hashes requirements/dev.lock
	$(BIN)/uv pip install -q --system-certs --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $(VENV)/.runtime $@

# Whoever has the developers' environment keeps it up to date; whoever has not does not get it by starting a fleet.
READY := $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.runtime)

setup: $(VENV)/.installed ## create .venv with locked dependencies, muster, clusteradm and the tools of developers
	@[ "$(MAKECMDGOALS)" != setup ] || printf '%s\n' "Ready. Next:" \
	  '  export PATH=$$PWD/$(BIN):$$PATH   # muster, clusteradm, kubectl' \
	  '  muster up --detach               # a hub and two clusters; or: make up' \
	  '  make test                        # lint and tests'

lock: setup ## resolve dependencies anew into requirements/*.lock
	@lock() { out=$$1; shift; $(BIN)/uv pip compile -q --system-certs --upgrade --universal --generate-hashes --no-header \
	    --no-annotate --no-emit-index-url --no-emit-find-links "$$@" -o requirements/$$out.lock; }; \
	  set -e; lock runtime pyproject.toml --extra aws --extra postgres; lock up pyproject.toml --extra aws --extra postgres --extra kubectl; \
	  lock dev pyproject.toml --extra aws --extra postgres --extra kubectl --group dev; lock clients pyproject.toml --group clients; lock site --group site

$(CLIENTS)/.installed: requirements/clients.lock $(VENV)/.installed
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(CLIENTS)
	VIRTUAL_ENV=$(CLIENTS) $(BIN)/uv pip sync -q --system-certs --compile-bytecode --require-hashes requirements/clients.lock
	@touch $@

clients: $(CLIENTS)/.installed ## create .venv-clients with the clients that fleets and the gateway are tried with

$(SITE)/.installed: requirements/site.lock $(VENV)/.uv
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(SITE)
	VIRTUAL_ENV=$(SITE) $(BIN)/uv pip sync -q --system-certs --compile-bytecode --require-hashes requirements/site.lock
	@touch $@

site: $(SITE)/.installed ## build the documentation as a site, in site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

up: $(READY) ## start a hub and two managed clusters on this machine
	@$(BIN)/muster up

down: $(READY) ## stop them; their state is kept
	@$(BIN)/muster down

test: setup ## lint, and unit, end-to-end and differential tests on the embedded control plane
	@$(MAKE) --no-print-directory -j 2 lint suites

# Beside lint, whose mypy has use for one core only.
suites: setup
	@$(BIN)/python -m compileall -q src
	$(AGAIN) $(XDIST) tests/e2e tests/unit tests/differential

peers: ## build the real kube-apiserver, etcd and the other Go peers (cached outside the tree)
	$(MAKE) --no-print-directory -C peers

test-kube: setup peers ## the same end-to-end tests on a real kube-apiserver, and the differential suite
	MUSTER_E2E=kube $(AGAIN) $(XDIST) tests/e2e
	MUSTER_E2E=kube $(AGAIN) -n $(WORKERS) --dist load tests/differential

test-interop: setup clients peers ## upstream's Go programs against ours
	$(AGAIN) $(XDIST) tests/interop --ignore=$(ALONE)
	$(AGAIN) $(ALONE)

bench: setup peers ## ours and the peers side by side; results to docs/benchmarks.md
	$(BIN)/python -m bench --write

lint: setup ## ruff, formatting, types, import contract, generated manifests
	$(BIN)/ruff check src tests bench tools examples
	$(BIN)/ruff format --check src tests bench tools examples
	$(BIN)/mypy
	$(BIN)/lint-imports --config .importlinter
	$(BIN)/python -m muster.operator.bundle --check deploy

format: setup ## apply ruff's fixes and formatting
	$(BIN)/ruff check --fix src tests bench tools examples
	$(BIN)/ruff format src tests bench tools examples

clean: ## remove the environment and local state
	@[ ! -f .muster/fleet.json ] || [ ! -x $(BIN)/muster ] || $(BIN)/muster down
	rm -rf $(VENV) $(CLIENTS) $(SITE) site .muster .mypy_cache .ruff_cache .pytest_cache

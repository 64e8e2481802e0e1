# Everything a developer and CI run.  `make` alone lists it; every target fills .venv first if it has to.
# Settings: PYTHON=python3.12 (the Python a new .venv is made with), SEED=n, SEEDS=n, T="pytest arguments", JOBS=n (of pytest).

PY := .venv/bin/python
# Directories that hold Python: those that exist.
CODE := $(wildcard longtask tests tools bench examples)
PAGE := longtask/api/static/index.html
NODE_STAMP := ui/node_modules/.package-lock.json
# Two for each processor: half of its time a test waits, for a lease, a browser or a program of an agent.
TESTERS = $(shell echo $$((2 * $$(nproc))))

# A .venv that was copied or moved together with its tree is not up to date.
ifneq ($(shell cat .venv/stamp 2>/dev/null),$(CURDIR))
.PHONY: .venv/stamp
endif

.DELETE_ON_ERROR:
.PHONY: help venv page page-check demo test suite check ci sim crash chaos fetch agents mutants modules conformance screenshots bench load bench-peers format generate lock hooks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

venv: .venv/stamp ## fill .venv (every other target does it by itself)

.venv/stamp: requirements.lock pyproject.toml tools/venv.sh
	@PYTHON="$(PYTHON)" bash tools/venv.sh

page: ## build the page into longtask/api/static, where npm is
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(PAGE); else echo "npm is not here: LongTask goes without its page"; fi

$(PAGE): $(NODE_STAMP) $(shell find ui -path ui/node_modules -prune -o -type f -print)
	cd ui && npm run --silent build

$(NODE_STAMP): ui/package.json ui/package-lock.json
	cd ui && npm ci --no-audit --no-fund
	@touch $@

page-check: ## types, drift of the API, component tests and size of the page
	@command -v npm >/dev/null || { echo "page-check takes npm (Node 20.19 or newer), which is not on the PATH; all else of ci: make check mutants chaos"; exit 1; }
	@$(MAKE) --no-print-directory $(PAGE)
	cd ui && npm run --silent check && npm run --silent test && npm run --silent size

demo: .venv/stamp ## carry a real migration to its end, model recorded, all else real
	@$(MAKE) --no-print-directory page || echo "the page could not be built; the demo goes without it"
	.venv/bin/longtask demo

test: suite ## the suite, then the demo, as where nobody can answer
	@$(MAKE) --no-print-directory demo </dev/null

suite: .venv/stamp page ## all but the slow tests, on SQLite and PostgreSQL, in a browser (half an hour on two cores)
	$(PY) -m pytest -n $(or $(JOBS),$(TESTERS)) --dist loadfile --no-loadscope-reorder --durations=10 $(T)

check: .venv/stamp ## format, lint, types, import layers, lock, generated files (under a minute)
	$(PY) -m ruff format --check --quiet $(CODE)
	$(PY) -m ruff check --quiet $(CODE)
	$(PY) -m tools.imports
	.venv/bin/lint-imports
	$(PY) -m tools.lock --check
	$(PY) -m tools.generate --check
	$(PY) -m mypy longtask tools $(wildcard tests bench)

ci: check page-check mutants chaos ## what CI runs beside `make test`

sim: .venv/stamp ## the simulator: SEEDS=n fresh seeds, or SEED=n again; DATABASE=postgresql; SPAWN=80 per cent of agents
	$(PY) -m tests.sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),300)) $(if $(DATABASE),--database $(DATABASE)) $(if $(SPAWN),--spawn $(SPAWN)) $(if $(HANDS),--hands $(HANDS)) $(if $(TASK),--task $(TASK)) $(if $(ACTIVE),--active $(ACTIVE)) $(if $(FORKS),--forks $(FORKS))

crash: .venv/stamp ## real processes killed at every named point
	$(PY) -m pytest tests/crash -m "crash or not crash" $(T)

chaos: .venv/stamp ## a fleet on PostgreSQL while all goes wrong: MINUTES=n, SEED=n
	$(PY) -m tests.chaos --minutes $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED))

fetch: .venv/stamp ## fetch the programs of agents (AGENTS="opencode codex"; all are about 1 GB)
	for name in $(or $(AGENTS),claude-code codex opencode); do LONGTASK_HOME=.venv .venv/bin/longtask dev fetch $$name || exit 1; done

agents: fetch ## try all agents with a scripted model, those that are programs too, the slow tests included
	$(PY) -m pytest tests/agents -m "slow or not slow" $(T)

mutants: .venv/stamp ## break the code on purpose; every mutant must be found
	$(PY) -m tests.sim.mutants

modules: .venv/stamp ## 200 modules, each moved by a task of its own, while things go wrong; counted outside the database (MODULES=n, from 20)
	$(PY) examples/migrate-modules/modules.py --modules $(or $(MODULES),200)

conformance: .venv/stamp ## what a store promises, on every database there is
	$(PY) -m pytest tests/conformance -m "slow or not slow" $(T)

screenshots: .venv/stamp page ## pictures of the page for docs/page.md
	$(PY) -m tests.page.screenshots

bench: .venv/stamp ## one JSON line for each workload
	$(PY) -m bench

load: .venv/stamp ## 200 submits a second while 100 streams are open, on both databases, one process and two (RUN=name SECONDS=n RATE=n STREAMS=n; about 12 minutes)
	$(PY) -m bench.load $(RUN) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) $(if $(STREAMS),--streams $(STREAMS))

bench-peers: .venv/stamp ## the same work on LongTask and on its peers (ROUNDS=n MINUTES=m; about 90 minutes)
	$(PY) -m bench.peers --rounds $(or $(ROUNDS),3) --minutes $(or $(MINUTES),90) --write-doc

format: .venv/stamp ## format, and fix what can be fixed by a tool
	$(PY) -m ruff format $(CODE)
	$(PY) -m ruff check --fix $(CODE)

generate: .venv/stamp ## write the generated files anew
	$(PY) -m tools.generate

lock: .venv/stamp ## resolve requirements.lock anew from pyproject.toml (UPGRADE=1: newest versions)
	$(PY) -m tools.lock $(if $(UPGRADE),--upgrade)

hooks: .venv/stamp ## run format and lint before every commit
	$(PY) -m pre_commit install

clean: ## remove .venv, caches and build outputs
	rm -rf .venv build dist ui/node_modules longtask/api/static .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

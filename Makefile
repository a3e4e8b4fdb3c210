# Every target works without a terminal. `PYTHON=python3.12 make run` names another interpreter.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := gateway accounts routing interns console manage.py .ci
# Where bytecode is not kept, each process rewrites the assertions of all tests first.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest $(if $(DURATIONS),--durations 20)
LANE = $(PYTEST) -n $$($(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)') --dist worksteal
# What a change must pass, and everything but the long variants and what is measured.
CHANGE := not thorough and not nightly and not timed
WHOLE := not nightly and not timed
both_stores = status=0; \
	GATEWAY_TEST_STORES=postgres $(LANE) -m "$(1)" || status=$$?; \
	GATEWAY_TEST_STORES=sqlite $(LANE) -m "both and $(1)" || status=$$?; \
	exit $$status
# What needs no database, and one gateway that answers.
QUICK := tests/routing/selection tests/routing/decisions tests/routing/formats tests/routing/upstreams \
	tests/interns/test_machine.py tests/gateway/test_jsonio.py tests/gateway/test_bed.py
# A fixed day makes the locks reproducible and leaves a new release seven days to be found bad.
LOCK_DAY ?= $(shell date -u -d '7 days ago' +%F 2>/dev/null || date -u -v-7d +%F)
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --quiet --exclude-newer $(LOCK_DAY)

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-quick test-for test-nightly mutate bench load screenshots walk bench-peers drill-peers test-engines conformance-node lint docs lock sbom installed installed-dev

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; \
		do printf '  %-16s %s\n' "$$name" "$$text"; done

installed:
	@$(PYTHON) -I gateway/run/install.py requirements.lock

installed-dev:
	@$(PYTHON) -I gateway/run/install.py requirements-dev.lock

run: installed ## Start everything in the foreground: web, worker, beat, simulated providers, Valkey
	@exec $(BIN)/python -m gateway.run --parent-pid $$PPID

test: installed-dev ## Run what a change must pass, on PostgreSQL with Valkey and on SQLite; DURATIONS=1 lists the slowest
	@$(call both_stores,$(CHANGE))

test-all: installed-dev ## Run everything but the long variants
	@$(call both_stores,$(WHOLE))

test-quick: installed-dev ## Run what needs no database, and one gateway that answers
	@GATEWAY_TEST_STORES=sqlite $(LANE) -m "$(CHANGE)" $(QUICK)

test-for: installed-dev ## Run the tests that a change can touch: make test-for FILE...
	@tests=$$($(BIN)/python -m tests.support.affected $(filter-out $@,$(MAKECMDGOALS))) && \
	GATEWAY_TEST_STORES=postgres $(LANE) -m "$(WHOLE)" $$tests

test-nightly: export GATEWAY_TEST_FORKS = 0
test-nightly: installed-dev ## Run the long variants, then what is measured, alone
	@status=0; \
	GATEWAY_TEST_STORES=postgres $(LANE) --timeout=900 -m nightly || status=$$?; \
	GATEWAY_TEST_STORES=sqlite $(LANE) --timeout=900 -m "both and not timed" || status=$$?; \
	GATEWAY_TEST_TIMED=1 GATEWAY_TEST_STORES=postgres $(PYTEST) --timeout=900 -m "not nightly" \
		$$(grep -rlE --include='test_*.py' 'mark\.timed|in_time\(' tests) || status=$$?; \
	exit $$status

mutate: installed-dev ## Change single lines of what must not be wrong and count what tests notice; SUBJECT=NAME
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.mutation $(SUBJECT)

bench: installed-dev ## Measure the request path and print a table; COMPARE=FILE fails on a regression
	@$(BIN)/python -m tests.load.bench $(if $(COMPARE),--compare "$(COMPARE)")

load: installed ## Ask the gateway of `make run`, or of URL=, with GATEWAY_API_KEY and MODEL=, as many callers at once would
	@$(BIN)/python manage.py load_test $(if $(URL),--url "$(URL)") $(if $(MODEL),--model "$(MODEL)") --streams 200

screenshots: installed-dev ## Take pictures of every page of the console, wide and narrow or of WIDTH=, into GATEWAY_HOME/screenshots
	@$(BIN)/python -m tests.console.screenshots $(if $(WIDTH),--width $(WIDTH))

walk: installed-dev ## Count the files and calls that one plain chat request takes; LIST=1 lists them in order
	@$(BIN)/python -m tests.load.walk $(if $(LIST),--list)

bench-peers: installed-dev ## Measure it beside LiteLLM and Portkey, which this installs into GATEWAY_HOME
	@$(BIN)/python -m tests.load.peers

drill-peers: installed-dev ## Count failed callers through it, LiteLLM and Portkey in front of the same troubles
	@folder=$$($(BIN)/python -m tests.load.peers.installs) && \
	GATEWAY_PEERS=$$folder GATEWAY_TEST_TIMED=1 GATEWAY_TEST_STORES=postgres \
		$(BIN)/python -m pytest -q -s --timeout=900 tests/faults/fewer_failures_than_peers.py

test-engines: installed-dev ## Try decisions against llama.cpp's server, where it is installed
	@GATEWAY_TEST_STORES=postgres $(BIN)/python -m pytest -q tests/engines/engines.py

conformance-node: installed-dev ## Run Node's clients against the gateway; installs them into GATEWAY_HOME
	@folder=$$($(BIN)/python -m tests.conformance.node.packages) && \
	GATEWAY_NODE_CLIENTS=$$folder $(BIN)/python -m pytest -q tests/conformance/node/clients.py

lint: installed-dev ## Check style, types, import contracts, migrations, settings, locks, known holes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@MYPYPATH=. $(BIN)/mypy $(SOURCES) tests
	@$(BIN)/lint-imports
	@$(BIN)/python .ci/check_django.py
	@$(BIN)/python .ci/check_migrations.py
	@$(BIN)/python .ci/settings_page.py
	@$(BIN)/python .ci/endpoint_pages.py
	@$(BIN)/python .ci/check_locks.py
	@$(BIN)/python .ci/check_pth.py
	@$(BIN)/python .ci/audit.py

docs: installed-dev ## Write the references of settings and endpoints from what the code declares
	@$(BIN)/python .ci/settings_page.py --write
	@$(BIN)/python .ci/endpoint_pages.py --write

sbom: installed-dev ## Write the bill of materials to GATEWAY_HOME as CycloneDX JSON
	@$(BIN)/python .ci/sbom.py

lock: installed-dev ## Renew the locks from pyproject.toml
	@$(LOCK) --upgrade -o requirements.lock
	@$(LOCK) --upgrade --group dev -c requirements.lock -o requirements-dev.lock
	@$(LOCK) --extra kubernetes -c requirements-dev.lock -o requirements-kubernetes.lock

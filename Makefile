# python3 and make are enough: the targets that need packages make their own .venv, or .venv-ptx.

PYTHON ?= python3
VENV ?= .venv
PTX_VENV ?= .venv-ptx
RUN := $(VENV)/bin/python
DEMO_STREAMS ?= mathoverflow rmat:18:8
DEMO_STEPS ?= 20
PYTEST_ARGS ?=
PYTHONS ?=
VERSIONS ?= both

# One stamp a set of packages: they are installed again only when pyproject.toml changes.
RUN_STAMP := $(VENV)/.stamp-run
TEST_STAMP := $(VENV)/.stamp-test
DOCS_STAMP := $(VENV)/.stamp-docs
PTX_STAMP := $(PTX_VENV)/.stamp

CHECKED := dynstore algorithms adapters benchmarks tests tools examples docs

# Tests start many processes. Each would compile all of dynstore anew where Python keeps no compiled modules.
test test-random test-thorough test-gpu test-versions: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-random test-thorough test-gpu test-versions mutations lint docs ptx wheels clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN_STAMP) ## Keep a graph and its answers up to date, beside making them anew; write demo.json and demo.html
	$(VENV)/bin/dynstore warmup --device cpu
	$(RUN) -m dynstore.bench.demo $(DEMO_STREAMS) --steps $(DEMO_STEPS) --json demo.json --report demo.html

test: lint ## Run lint, then the tests; CUDA kernels run in our simulator, random inputs are always the same
	$(RUN) -m pytest -n auto --dist worksteal --durations=20 $(PYTEST_ARGS)

test-random: $(TEST_STAMP) ## Run the tests that draw random inputs, with new ones; prints the seed, which repeats them
	DYNSTORE_TEST_SEED=$(or $(DYNSTORE_TEST_SEED),random) $(RUN) -m pytest -n auto --dist worksteal \
		-m 'draws and not thorough' $(PYTEST_ARGS)

test-thorough: lint ## The same with all variants of all stores, new random inputs and many more; takes hours
	DYNSTORE_TEST_PROFILE=thorough DYNSTORE_TEST_SEED=$(or $(DYNSTORE_TEST_SEED),random) \
		$(RUN) -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-gpu: ## Run the tests with CUDA for real; uses the packages of PYTHON, makes no .venv
	DYNSTORE_TEST_DEVICES=cuda $(PYTHON) -m pytest $(PYTEST_ARGS)

test-versions: $(TEST_STAMP) ## Run them with the newest libraries on PYTHONS, and with the oldest (VERSIONS=both)
	$(RUN) -m tests.versions.run --libraries $(VERSIONS) $(PYTHONS) --pytest-args $(PYTEST_ARGS)

mutations: $(TEST_STAMP) ## Put some forty bugs into copies of the tree: do the tests find them?
	$(RUN) -m tests.mutations.run

lint: $(TEST_STAMP) ## Run ruff check, ruff format --check and mypy
	$(RUN) -m ruff check $(wildcard $(CHECKED))
	$(RUN) -m ruff format --check $(wildcard $(CHECKED))
	$(RUN) -m mypy

docs: $(DOCS_STAMP) ## Build the documentation as a site in build/docs; warnings are errors
	$(RUN) -m sphinx -b html -q -E -W --keep-going -d build/doctrees docs build/docs

ptx: $(PTX_STAMP) ## Compile all CUDA kernels without a GPU; compare their PTX with tests/ptx/digests.json
	$(PTX_VENV)/bin/python tests/ptx/gate.py write $(PTX_VENV)/digests.json
	$(PTX_VENV)/bin/python tests/ptx/gate.py compare tests/ptx/digests.json $(PTX_VENV)/digests.json

wheels: ## Build wheels of dynstore and of its library for cuGraph; PYTHON needs RAPIDS and Cython
	$(PYTHON) -m dynstore.adapters.cugraph.borrowed.wheel --out dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## Remove .venv, .venv-ptx and everything built or cached
	rm -rf $(VENV) $(PTX_VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis demo.json demo.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

$(TEST_STAMP): pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(RUN_STAMP)

$(DOCS_STAMP): pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(PTX_STAMP): pyproject.toml tests/ptx/requirements.txt
	$(PYTHON) -m venv $(PTX_VENV)
	$(PTX_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/ptx/requirements.txt -e .
	touch $@

# `make run` and `make test` set everything up themselves; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# How many tests run side by side (many wait for a process or a socket), and which of them: make tests ARGS="tests/search -k typo"
JOBS ?= 4
ARGS ?=

.PHONY: help setup run test check-format lint types tests tests-quick format docs recording behaviours mutations attack fleet bench bench-ranking bench-quick conformance dist deploy-lint wheel fresh lock audit clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(VENV)/.ready  ## a virtual environment with exactly the pinned packages, their hashes checked

$(VENV)/.ready: requirements-hashes.txt pyproject.toml hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-hashes.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: setup  ## start the gateway on the embedded example, at http://127.0.0.1:8765/mcp
	@$(BIN)/toolscout serve --example

test: setup check-format lint types tests  ## format check, lint, types, tests, documentation

check-format:
	$(BIN)/ruff format --check .

lint:
	$(BIN)/ruff check .

types:
	$(BIN)/pyright

tests: setup
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

tests-quick: setup  ## the tests without the slow ones: make tests-quick ARGS="tests/search"
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(ARGS)

format: setup  ## format the code
	$(BIN)/ruff format .

docs: setup  ## write what the pages say of the code, and build the site
	$(BIN)/python scripts/pages.py
	$(BIN)/python scripts/diagrams.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

recording: setup  ## run the commands of the README in a terminal and draw docs/figures/terminal.svg
	$(BIN)/python scripts/recording.py

behaviours: setup  ## which tests prove which behaviours
	@$(BIN)/python -m tests.behaviours $(ARGS)

mutations: setup  ## break the code on purpose; marked tests must notice: ARGS="solaris C2"
	@$(BIN)/python scripts/mutations.py --jobs $(JOBS) $(ARGS)

attack: setup  ## attack a gateway and print what held: ARGS="--quick", ARGS="overload fuzzing"
	@$(BIN)/python -m tests.attack $(ARGS)

fleet: setup  ## three gateways behind a round robin; prints what works
	@$(BIN)/python -m tests.fleet

bench: setup  ## every benchmark, Toolscout beside its peers; writes docs/benchmarks.md
	@$(BIN)/python -m bench $(ARGS)

bench-ranking: setup  ## what each part of ranking is worth, with a family of sets left out
	@$(BIN)/python -m bench.ranking $(ARGS)

bench-quick: setup  ## the same on a part of everything, into .cache/bench/report
	@$(BIN)/python -m bench --quick $(ARGS)

conformance: setup  ## the official MCP suites against the gateway; writes docs/conformance.md
	@$(BIN)/python -m tests.gateway.conformance.run --write docs/conformance.md

dist: setup  ## build every file of a release into dist/, and check them
	@$(BIN)/python scripts/dist.py

deploy-lint: setup  ## check Dockerfile, the files in deploy/ and workflows with their linters
	@$(BIN)/python scripts/deploy_lint.py

wheel: setup  ## build wheel and sdist; try them with pip, pipx and uvx, and each extra alone
	@$(BIN)/python scripts/wheel

fresh:  ## what a newcomer meets: clone, empty home, the commands of the README
	@$(PYTHON) scripts/fresh

lock: setup  ## pin what is installed, with hashes; ARGS=--hashes after an edit of requirements.txt
	$(BIN)/python scripts/lock.py $(ARGS)

audit: setup  ## look up all packages in a database of vulnerabilities; exit code 3 if it could not
	@$(BIN)/python scripts/audit_packages.py $(ARGS)

clean:  ## remove what the other targets made
	rm -rf $(VENV) .cache dist site .pytest_cache .ruff_cache .hypothesis

# `make run` and `make test` set everything up themselves; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup run test format lint types tests lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(VENV)/.ready  ## a virtual environment with exactly the pinned packages

$(VENV)/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: setup  ## search the embedded example catalog, interactively
	@$(BIN)/toolscout search --interactive

test: setup format lint types tests  ## format check, lint, types, tests, docs examples

format:
	$(BIN)/ruff format --check .

lint:
	$(BIN)/ruff check .

types:
	$(BIN)/pyright

tests:
	$(BIN)/python -m pytest

lock: setup  ## write requirements.txt anew from what is installed
	$(BIN)/python -m pip freeze --exclude-editable --exclude toolscout > requirements.txt

clean:  ## remove what the other targets made
	rm -rf $(VENV) .cache dist .pytest_cache .ruff_cache .hypothesis

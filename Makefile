# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv.
# `make docs` builds the documentation into site/.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS   := $(VENV)/.installed-docs

.PHONY: demo demo-full test check docs clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

$(DOCS): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $(DOCS)

demo: $(STAMP)
	$(BIN)/rapgnn compare pubmed --quick --json demo/pubmed.json --plot demo/pubmed.png

demo-full: $(STAMP)
	$(BIN)/rapgnn compare pubmed --json demo/pubmed.json --plot demo/pubmed.png

test: $(STAMP) check
	$(BIN)/python -m pytest

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: $(DOCS)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) demo site .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo demo-full test check clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/rapgnn compare pubmed --quick --json demo/pubmed.json --plot demo/pubmed.png

demo-full: $(STAMP)
	$(BIN)/rapgnn compare pubmed --json demo/pubmed.json --plot demo/pubmed.png

test: $(STAMP) check
	$(BIN)/python -m pytest

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/pyright --version > /dev/null 2>&1; then $(BIN)/pyright; \
	else echo "pyright could not be fetched: types are not checked"; fi

clean:
	rm -rf $(VENV) demo .pytest_cache .ruff_cache .hypothesis

# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv.
# `make docs` builds the documentation into site/.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --no-compile --constraint constraints.txt
USED   := $(VENV)/.installed-report
STAMP  := $(VENV)/.installed
METHODS := fit,rap,end-to-end,pretrained-embedding,fixed-diagonal,fixed-full,random-full,identity
DOCS   := $(VENV)/.installed-docs

.PHONY: demo demo-full test check docs clean

$(USED): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[report]' --editable ./lab
	touch $(USED)

$(STAMP): $(USED)
	$(PIP) --editable '.[dev]' --editable ./lab
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # not what packages carry for other Pythons
	touch $(STAMP)

$(DOCS): $(STAMP)
	$(PIP) --editable '.[docs]'
	touch $(DOCS)

demo: $(USED)
	$(BIN)/rapgnn compare pubmed --methods $(METHODS) --quick --seeds 1 --json demo/pubmed.json
	$(BIN)/rapgnn fit pubmed --out demo/model --report demo/report.html
	@echo "open: demo/report.html (the model); the comparison is in demo/pubmed.json"
	@echo "your own data: $(BIN)/rapgnn fit FOLDER --label COLUMN --out model --report report.html"

demo-full: $(USED)
	$(BIN)/rapgnn compare pubmed --methods $(METHODS) --json demo/pubmed.json

test: $(STAMP) check
	@echo "the library's tests" && $(BIN)/python -m pytest tests
	@echo "the laboratory's tests" && $(BIN)/python -m pytest lab/tests

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: $(DOCS)
	$(BIN)/properdocs build --strict

clean:
	rm -rf $(VENV) demo site .pytest_cache .ruff_cache .import_linter_cache .hypothesis

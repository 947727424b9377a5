# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv.
# `make docs` builds the documentation into site/.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
METHODS := fit,rap,end-to-end,pretrained-embedding,fixed-diagonal,fixed-full,random-full,identity
DOCS   := $(VENV)/.installed-docs

.PHONY: demo demo-full test check docs clean

$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable ./lab
	touch $(STAMP)

$(DOCS): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $(DOCS)

demo: $(STAMP)
	$(BIN)/rapgnn compare pubmed --methods $(METHODS) --quick --seeds 1 --json demo/pubmed.json --plot demo/pubmed.png
	$(BIN)/rapgnn fit pubmed --out demo/model --report demo/report.html
	@echo "open: demo/report.html (the model), demo/pubmed.png (the comparison)"
	@echo "your own data: $(BIN)/rapgnn fit FOLDER --label COLUMN --out model --report report.html"

demo-full: $(STAMP)
	$(BIN)/rapgnn compare pubmed --methods $(METHODS) --json demo/pubmed.json --plot demo/pubmed.png

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

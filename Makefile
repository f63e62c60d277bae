# `make train` and `make test` are all a fresh machine needs; both install into .venv first.
PYTHON ?= python3
ENV ?= FlappyBird-v0
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: install train test check format bench clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	touch $@

train: install
	$(BIN)/a3cd train $(ENV)

test: install
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage

# `make train` and `make test` are all a fresh machine needs; both install into .venv first.
PYTHON ?= python3
ENV ?= FlappyBird-v0
MINUTES ?= 20
SEEDS ?= 1000
BIN := .venv/bin
INSTALLED := .venv/installed
AUDIT := .venv/audit/bin
WORKERS ?= 3
# Each file's tests in one process and in order. Three for two cores: the tests of daemons and hosts mostly wait.
TESTS := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile -rs
UNIT := not (slow or long or system or hosts or learning)

.PHONY: install engines train quick test long coverage fuzz simulate-faults examples check docs audit format bench clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	touch $@

# What the tests of other engines (Ray, Kubernetes, trackers, ONNX, notebooks) need; without it they are skipped.
engines: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[engines]'

train: install
	$(BIN)/a3cd train $(ENV)

# The unit tests alone: no daemons, hosts or trainings. Under two minutes on two free cores.
quick: install
	HYPOTHESIS_PROFILE=quick $(TESTS) -q -m '$(UNIT)'

# All tests but the longest.
test: install
	$(TESTS) -m 'not long'

# Images, deployments, tutorials from beginning to end, other engines: each takes half a minute or more. Only their files
# are read: to collect all tests can take a minute in each process.
long: install
	$(TESTS) -m long $$(grep -rl --include='test_*.py' pytest.mark.long tests)

# All tests, and the lines that none of them runs; it takes a third longer.
coverage: install
	$(TESTS) --cov --cov-report=term-missing:skip-covered

# Every reader of bytes from outside, and the cores under sequences of messages, led by coverage.
fuzz: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt atheris
	$(BIN)/python -P tests/fuzz/run.py --minutes $(MINUTES)

# Clusters in one process under random faults; the suite has the first two hundred.
simulate-faults: install
	$(BIN)/python -m tests.faults.run --seeds $(SEEDS)

# The unit tests with twenty times as many random examples: an hour or so.
examples: install
	HYPOTHESIS_PROFILE=many $(TESTS) -m '$(UNIT)' --timeout 7200

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# docs/ as a site in dist/site; a link or an anchor that leads nowhere, or a page that the navigation lacks, fails.
docs: install
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Known vulnerabilities in what is installed here. Asks a service on the internet, so it is no part of CI: a package that
# cannot be asked about is a failure, too.
audit: install
	test -x $(AUDIT)/pip-audit || { $(PYTHON) -m venv $(AUDIT:/bin=) && $(AUDIT)/pip install --quiet pip-audit; }
	$(BIN)/python -m pip freeze --exclude-editable >.venv/installed.txt
	$(AUDIT)/pip-audit --strict --no-deps --disable-pip --progress-spinner off --requirement .venv/installed.txt || \
		{ echo "audit failed: a vulnerability is listed above, or the vulnerability service did not answer" >&2; exit 1; }

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv fuzz-found .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage

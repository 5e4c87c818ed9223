# `make demo` and `make test` do everything; both set up first, once.

PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
BIN = $(VENV)/Scripts
else
BIN = $(VENV)/bin
endif
# Modules are compiled when they are first imported: compiling all of them takes a minute and more.
PIP = $(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt

# An environment of its own: each direct dependency at the lower end of its range in pyproject.toml.
LOWEST = build/lowest-venv
LOWEST_BIN = $(LOWEST)/$(notdir $(BIN))
LOWEST_TESTS = tests/functional tests/losses tests/temperature tests/modules tests/methods tests/metrics \
	tests/backbones tests/checkpoints tests/config tests/recipes tests/data tests/sweep \
	tests/results tests/cli/test_doctor.py tests/cli/test_help.py

.PHONY: help setup demo test test-all test-faults test-lowest check docs tutorials linkcheck format bench bench-peers soak lock sbom sizes clean

help:
	@echo "make demo    set up, then train SimCLR and SimCLR + AMCL and compare (3 minutes)"
	@echo "make test    set up, then run the tests (5 minutes)"
	@echo "make test-all  the slow tests and all attacks too (an hour)"
	@echo "make test-faults  every kill, full disk, damaged and hostile file, and a table of them (40 minutes)"
	@echo "make test-lowest  the core tests and a short run, with each dependency at its lowest version (12 minutes, 7 GB)"
	@echo "make check   formatting, lint, types and the import rule"
	@echo "make docs    build the documentation into build/docs; warnings are errors (1 minute)"
	@echo "make tutorials  execute the notebooks of docs/tutorials and store their output (10 minutes)"
	@echo "make linkcheck  follow the links of the documentation, which needs a network"
	@echo "make format  put the code into the project's format"
	@echo "make bench   measure time and memory, write benchmarks/results (40 minutes)"
	@echo "make bench-peers  train by amcl and by lightly on CIFAR-10, compare them (35 minutes)"
	@echo "make soak    train for long, on many files, many runs; watch memory and open files (30 minutes)"
	@echo "make lock    write build/lock.txt: every file of an installation, with its SHA-256"
	@echo "make sbom    write build/sbom.json: every package of an installation, as CycloneDX"
	@echo "make sizes   the disk space of each dependency"
	@echo "make setup   only make the virtual environment $(VENV) (PyTorch: 3 minutes, 6 GB on Linux)"
	@echo "make clean   remove the virtual environment and all caches"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || { echo "there is no $(PYTHON): name a Python of 3.11 or newer, make PYTHON=…"; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else \
		"amcl needs Python 3.11 or newer, $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 …" % v[:2])'
	@echo "== setting up $(VENV): PyTorch and the tools, once, about 3 minutes"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.bench-ready: $(VENV)/.ready
	@echo "== adding what the benchmarks compare with"
	$(PIP) --editable '.[bench]'
	@touch $@

demo: setup
	@$(BIN)/amcl demo

test: setup
	@echo "== tests, but for the slow ones"
	@$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal -m 'not slow'

test-all: setup
	@echo "== all tests"
	@$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

test-faults: setup
	@echo "== all attacks of tests/faults"
	@rm -f build/attacks.tsv && mkdir -p build
	@AMCL_FAULT_TABLE=build/attacks.tsv $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal tests/faults
	@$(BIN)/python tests/faults/table.py build/attacks.tsv

$(LOWEST)/.ready: pyproject.toml release/lowest.py
	@echo "== setting up $(LOWEST): each dependency at the lower end of its range"
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST_BIN)/python -m pip install --disable-pip-version-check --quiet 'packaging>=24,<27'
	$(LOWEST_BIN)/python release/lowest.py > build/lowest.txt
	$(LOWEST_BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint build/lowest.txt --editable '.[all,test]'
	@touch $@

# Old versions warn of what newer Pythons and NumPys have changed: here warnings are no errors.
test-lowest: $(LOWEST)/.ready
	@echo "== a short run with the lowest versions"
	@$(LOWEST_BIN)/amcl doctor
	@rm -rf build/lowest-run build/lowest-export build/lowest-curation
	@$(LOWEST_BIN)/amcl pretrain --data builtin --subset 200 --epochs 1 --batch-size 64 --tensorboard --out build/lowest-run
	@$(LOWEST_BIN)/amcl evaluate build/lowest-run --protocols knn linear
	@$(LOWEST_BIN)/amcl report build/lowest-run
	@$(LOWEST_BIN)/amcl export build/lowest-run --onnx --out build/lowest-export
	@$(LOWEST_BIN)/amcl curate build/lowest-run --data builtin --out build/lowest-curation
	@echo "== tests with the lowest versions"
	@$(LOWEST_BIN)/python -m pytest --override-ini filterwarnings=ignore --numprocesses=auto --maxprocesses=4 \
		--dist=worksteal -m 'not slow' $(LOWEST_TESTS)

check: setup
	@echo "== formatting, lint, types, import rule"
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: setup
	@echo "== documentation"
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html --doctree-dir build/doctrees docs build/docs
	@echo "build/docs/index.html"

tutorials: setup
	@$(BIN)/python docs/execute_tutorials.py

linkcheck: setup
	@$(BIN)/python -m sphinx --quiet --builder linkcheck --doctree-dir build/doctrees docs build/linkcheck

format: setup
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: $(VENV)/.bench-ready
	@$(BIN)/python benchmarks/core.py
	@$(BIN)/python benchmarks/views.py
	@$(BIN)/python benchmarks/decoding.py
	@$(BIN)/python benchmarks/shards.py
	@$(BIN)/python benchmarks/training.py
	@$(BIN)/python benchmarks/evaluation.py
	@$(BIN)/python benchmarks/masked.py
	@$(BIN)/python benchmarks/detection.py
	@$(BIN)/python benchmarks/published_losses.py
	@$(BIN)/python benchmarks/curation.py

bench-peers: $(VENV)/.bench-ready
	@$(BIN)/python benchmarks/peers.py

soak: setup
	@$(BIN)/python benchmarks/soak.py

lock: setup
	@$(BIN)/python release/lock.py

sbom: setup
	@$(BIN)/python release/sbom.py

sizes: setup
	@$(BIN)/python release/sizes.py

clean:
	rm -rf $(VENV) $(LOWEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

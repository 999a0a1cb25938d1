# Everything that is done with this tree. On a fresh machine: make demo, make test.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$python && break; done)

# The libvirt driver is compiled against the system's libvirt, so it comes along only where that can succeed.
HEADERS := import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))
LIBVIRT := $(shell pkg-config --exists libvirt 2>/dev/null && command -v cc >/dev/null \
	&& $(PYTHON) -c "$(HEADERS)" 2>/dev/null && echo ,libvirt)

RUN_STAMP := $(VENV)/.installed-run$(LIBVIRT)
DEV_STAMP := $(VENV)/.installed-dev$(LIBVIRT)
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# Where pip or the environment does not have bytecode written, each start would compile everything anew.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib src || true

.PHONY: help demo setup test test-all check bench faultmap mutants sim picture pictures docs wheels lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/make \1:/p' $(MAKEFILE_LIST)

demo: $(RUN_STAMP)  ## set up what is needed and tell the story of a move that survives kill -9
	@$(BIN)/whimbrel demo

setup: $(DEV_STAMP)  ## .venv with the package and all development tools

# One worker more than processors: some tests wait for the processes that they start. Workers that may not write bytecode
# compile all tests in each run: 18 s of each.
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
RUNNER ?= pytest
PYTEST = PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m $(RUNNER) -n $(WORKERS) --dist worksteal --one-in $(SHARE) --part $(PART)

# Crash stories play one in so many of their faults (tests/share.py); the commit chooses which. SHARE=1: all.
SHARE ?= 8
PART ?= $(shell commit=$$(git rev-parse HEAD 2>/dev/null || echo 0) && echo $$((0x$${commit:0:6})))

# The seed: what is generated for a test must not depend on the order of a set, which is another in each process.
test: $(DEV_STAMP)  ## set up and run the tests but the long ones; those whose prerequisites are missing say how to install them
	$(PYTEST) -m "not long"

test-all: $(DEV_STAMP)  ## also the long ones, and deep searches by hypothesis; SHARE=1: every fault of every crash story
	$(PYTEST) --hypothesis-profile=deep

check: $(DEV_STAMP)  ## formatting, lint, types, import contracts and retired words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.retired_words

bench: $(DEV_STAMP)  ## benchmarks; AGAINST=<commit>: in turns with its own, as ratios; HOSTS="100 1000": Placement with these only
ifdef AGAINST
	$(BIN)/python bench/against.py $(AGAINST) $(BENCHES)
else
	@set -e; for bench in bench/bench_*.py; do $(BIN)/python $$bench; done
	$(BIN)/python bench/placement_candidates.py $(HOSTS)
	$(BIN)/python bench/placement_writes.py $(HOSTS)
	$(BIN)/python bench/placement_feed.py
	$(BIN)/python bench/placement_hold.py
endif

faultmap: $(DEV_STAMP)  ## docs/generated/fault-map.*: every fault at every step; CHECK=1: is it still so? ONE_IN=3 PART=0: of a third; ADD=1: new kinds; PAIRS=1
	PYTHONHASHSEED=0 $(BIN)/python -m tools.faultmap $(if $(PAIRS),--pairs) $(if $(CHECK),--check) $(if $(ADD),--add) $(if $(ONE_IN),--one-in $(ONE_IN) --part $(or $(PART),0))

mutants: $(DEV_STAMP)  ## leave out each undo, wait, line, save, fence and guard once: a story has to notice; ONLY="create: "; ONE_IN=16 PART=0
	PYTHONHASHSEED=0 $(BIN)/python -m tests.stories.mutants $(if $(ONLY),--only "$(ONLY)") $(if $(ONE_IN),--one-in $(ONE_IN) --part $(or $(PART),0))

# Mostly waiting costs nothing there: a seed is minutes of a cloud, and a fraction of a second of ours.
sim: $(RUN_STAMP)  ## simulated clouds with faults, SEEDS=2000 of them; one that fails is told as a short story
	$(BIN)/whimbrel sim run --seeds $(or $(SEEDS),2000) --steps 15 --jobs 0

picture: $(RUN_STAMP)  ## docs/demo.svg: the demo as the README shows it
	$(BIN)/whimbrel demo --picture docs/demo.svg

pictures: $(DEV_STAMP)  ## docs/dashboard-*.png: the dashboard as its pages show it; needs chromium
	$(BIN)/python -m tools.dashboard_pictures docs

docs: $(DEV_STAMP)  ## docs/generated: the pages that are made from the code
	$(BIN)/python -m tools.diagram docs/generated/moves.md
	$(BIN)/python -m tools.api_table docs/generated/api.md
	$(BIN)/python -m tools.reference .
	PYTHONHASHSEED=0 $(BIN)/python -m tools.parity docs/generated/parity.md

wheels: $(DEV_STAMP)  ## dist/wheels: the package and all that it needs, for machines without PyPI or a compiler
	rm -rf dist/wheels
	$(BIN)/pip wheel --quiet --disable-pip-version-check --constraint constraints.txt --wheel-dir dist/wheels '.[fencing$(LIBVIRT),volumes]'

lock: ## constraints.txt: the newest version of everything, as a fresh environment finds it
	set -e; fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; $(PYTHON) -m venv "$$fresh"; \
	"$$fresh/bin/pip" install --quiet '.[dev,fencing,libvirt,notifications,volumes]'; \
	{ head -1 constraints.txt; "$$fresh/bin/pip" freeze --exclude whimbrel; } > "$$fresh/new"; \
	cp "$$fresh/new" constraints.txt

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/pip:
	@test -n "$(PYTHON)" \
		|| { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "Without venv this cannot go on; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(RUN_STAMP): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing whimbrel and what it needs into $(VENV): one to four minutes"
	@$(INSTALL) '.$(if $(LIBVIRT),[libvirt])'
	@$(COMPILE)
	@touch $@

$(DEV_STAMP): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing whimbrel and all development tools into $(VENV): one to four minutes"
	@$(INSTALL) '.[dev$(LIBVIRT)]'
	@$(COMPILE)
	@touch $@ $(RUN_STAMP)

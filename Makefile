# Every target sets up what it needs, and nothing else. VENV and PYTHON choose another environment:
#   make test PYTHON=python3.13 VENV=.venv313
# PYTEST_ARGS is appended to pytest, TEST_PROCESSES=n is how many `make test` runs side by side, PEER=path names a
# kube-rbac-proxy binary for `make bench`, DEMO_ARGS and BENCH_ARGS go to the demo and the benchmark.
VENV   ?= .venv
BIN    := $(VENV)/bin
# What is in place: what runs the program; what `make test` and `make check` take; the standalone binary's compiler;
# what the end-to-end tests and the benchmark run.
RUNS   := $(VENV)/.runs
TESTS  := $(VENV)/.tests
BINARY := $(VENV)/.binary
E2E    := $(VENV)/.e2e

# The Python that makes VENV: PYTHON=..., that of an active virtual environment, or PYENV_VERSION's; else the one that
# made VENV before; else the first here that is new enough.
ifndef PYTHON
ifneq ($(VIRTUAL_ENV),$(filter $(abspath $(VENV)),$(VIRTUAL_ENV)))
PYTHON := $(VIRTUAL_ENV)/bin/python
else ifdef PYENV_VERSION
# `pyenv which` alone falls back to the system's for a version that isn't installed.
PYTHON := $(shell export PYENV_VERSION="$(PYENV_VERSION)"; \
	{ pyenv version-name >/dev/null && pyenv which python3; } 2>/dev/null || \
	echo "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$(PYENV_VERSION)/bin/python3")
endif
endif
CLEAR :=
ifdef PYTHON
# When it is another installation than the one that made VENV, VENV is made anew.
INSTALLATION := import sys; print(sys.base_prefix, sys.version)
ifneq ($(wildcard $(BIN)/python),)
VENV_PYTHON   := $(shell $(BIN)/python -c '$(INSTALLATION)' 2>/dev/null)
CHOSEN_PYTHON := $(shell "$(PYTHON)" -c '$(INSTALLATION)' 2>/dev/null)
ifneq ($(CHOSEN_PYTHON),$(VENV_PYTHON))
CLEAR := --clear
.PHONY: $(RUNS)
endif
endif
else
PYTHON := $(shell for p in $(BIN)/python python3 python python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
endif

# Debian packages and the program, or file, each one brings.
DEMO_TOOLS   := curl:curl
BINARY_TOOLS := gcc:gcc binutils:strip libc6-dev:/usr/include/stdlib.h zlib1g-dev:/usr/include/zlib.h
E2E_TOOLS    := openssl:openssl prometheus:prometheus prometheus-node-exporter:prometheus-node-exporter \
	nginx-light:nginx wrk:wrk mmdebstrap:mmdebstrap buildah:buildah runc:runc nghttp2-client:h2load
PIP          := -m pip install --quiet --disable-pip-version-check
# Three keep two cores busy: a third of the time a test waits for a process.
PROCESSES    := --numprocesses $(or $(TEST_PROCESSES),3) --dist worksteal

.PHONY: setup demo test fuzz e2e conformance check docs bench image binary wheel clean

setup: $(TESTS) $(E2E)

# Each runs again only when one of these files changed, and asks apt only for what is missing: with everything in place,
# no target needs the network.
$(RUNS): pyproject.toml Makefile
	@packages="$(DEMO_TOOLS)" python="$(PYTHON)" sh packaging/debian-packages.sh
	@$(or $(PYTHON),python3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "$(or $(PYTHON),python3) is missing or older than Python 3.11; PYTHON=... names another" >&2; exit 1; }
	@echo "Setting up $(VENV): half a minute, once"
	$(or $(PYTHON),python3) -m venv $(CLEAR) $(VENV)
	$(BIN)/python $(PIP) --editable .
	@touch $@

$(TESTS): $(RUNS)
	@echo "Setting up what tests need: a minute or two, once"
	$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $@

# The standalone binary has an environment of its own: it would else hold what only tests import.
$(BINARY): $(RUNS)
	@packages="$(BINARY_TOOLS)" python="$(BIN)/python" sh packaging/debian-packages.sh
	$(BIN)/python -m venv $(VENV)/binary
	$(VENV)/binary/bin/python $(PIP) --editable '.[binary]'
	@touch $@

# So has sslyze, which scans the TLS listeners: it takes no cryptography from 47 on, and ours must not be held back by a
# test's tool.
$(E2E): $(TESTS) $(BINARY)
	@packages="$(E2E_TOOLS)" python="$(BIN)/python" sh packaging/debian-packages.sh
	$(BIN)/python -m venv $(VENV)/sslyze
	$(VENV)/sslyze/bin/python $(PIP) 'sslyze>=6.3'
	@touch $@

demo: $(RUNS)
	@$(BIN)/pyrbacproxy demo $(DEMO_ARGS)

test: $(TESTS)
	$(BIN)/pytest $(PROCESSES) -m 'not e2e' $(PYTEST_ARGS)

# Certificates and PEM files made to break what reads them: FUZZ_INPUTS of each kind, from FUZZ_SEED on.
fuzz: $(TESTS)
	FUZZ_INPUTS=$(or $(FUZZ_INPUTS),50000) FUZZ_SEED=$(or $(FUZZ_SEED),71) $(BIN)/pytest tests/tls/test_fuzz.py $(PYTEST_ARGS)

# What needs the image, the standalone binary, real programs around the proxy or a long wait. One at a time: some fill
# the machine by themselves.
e2e: $(E2E)
	$(BIN)/pytest -m e2e $(PYTEST_ARGS)

# The recorded cases three times in a row: none may pass by luck.
conformance: $(TESTS)
	for run in 1 2 3; do $(BIN)/pytest --quiet $(PROCESSES) tests/test_conformance.py $(PYTEST_ARGS) || exit 1; done

check: $(TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile
	$(BIN)/python packaging/docs.py --check

# Puts the flag table into README.md and both tables into docs/MIGRATION.md.
docs: $(TESTS)
	$(BIN)/python packaging/docs.py

bench: $(E2E)
	$(BIN)/python -m benchmarks $(if $(PEER),--peer $(PEER)) $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.limits $(if $(PEER),--peer $(PEER)) $(BENCH_ARGS)

image:
	docker build --tag pyrbacproxy \
		--build-arg "COMMIT=$$(git rev-parse HEAD)" \
		--build-arg "TREE_STATE=$$(test -z "$$(git status --porcelain)" && echo clean || echo dirty)" .

# One file for a node without Python: build/pyrbacproxy.
binary: $(BINARY)
	$(VENV)/binary/bin/python packaging/binary/build.py

# dist/*.whl, the same bytes for the same commit.
wheel: $(TESTS)
	$(BIN)/python packaging/wheel.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage src/*.egg-info

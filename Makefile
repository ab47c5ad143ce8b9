# The commands of this project. `make demo` and `make test` set up what they need on first use.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-triton fuzz flips kills check format bench clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
TRITON := $(shell sed -n 's/^triton = \["\(.*\)"\]/\1/p' pyproject.toml)
DEMO := build/demo
# one rank per GPU; without GPUs one per core, but no more than such a small log can feed
RANKS = $(shell $(RUN)/python -c 'import os, torch; print(torch.cuda.device_count() or min(4, os.cpu_count()))')

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make the environment in .venv, as the other commands do on first use

demo: $(READY) ## Make a realistic event log as CSV, convert it, train on it, report, recommend
	$(RUN)/python -m data_prep synth $(DEMO)/social.csv --kind social --events 1.2e4 --as-csv --overwrite
	head -n 4 $(DEMO)/social.csv
	$(RUN)/python -m data_prep convert $(DEMO)/social.csv $(DEMO)/social --overwrite
	$(RUN)/python -m data_prep describe $(DEMO)/social --verify
	rm -rf $(DEMO)/run
	$(RUN)/torchrun --nproc_per_node=$(RANKS) -m tpnet_dist.train $(DEMO)/social --preset social \
		--training.epochs 5 --run-dir $(DEMO)/run
	@echo; echo "A report of the run, as one HTML page:"
	$(RUN)/python -m tpnet_dist.report $(DEMO)/run --out $(DEMO)/report.html
	@echo; echo "The most likely next partners of the users in the log's last three events:"
	(echo src; tail -n 3 $(DEMO)/social.csv | cut -d, -f1 | sort -u) > $(DEMO)/users.csv
	$(RUN)/python -m tpnet_dist.predict $(DEMO)/run --top-k 5 --sources $(DEMO)/users.csv --out $(DEMO)/best.csv
	head -n 6 $(DEMO)/best.csv
	@echo; echo "In $(DEMO): the log as social.csv and social/, the run as run/, its report.html, best.csv"

# a test that is stuck inside a library hears no signal of pytest-timeout: its process says where it is, and ends
STUCK := -o faulthandler_timeout=330 -o faulthandler_exit_on_timeout=true --max-worker-restart 2

test: $(READY) ## Run the tests
	$(RUN)/python -m pytest -m "not slow" -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(STUCK)

test-slow: $(READY) ## Run the tests that take minutes
	$(RUN)/python -m pytest -m slow

test-triton: $(READY) ## Install Triton, 1 GB, and run the kernels for GPUs in its interpreter
	$(RUN)/python -c 'import triton' 2>/dev/null || $(RUN)/pip install --quiet "$(TRITON)"
	TRITON_INTERPRET=1 $(RUN)/python -m pytest -k triton tests/unit/memory/test_kernels.py \
		tests/unit/models/test_triton_pairs.py tests/unit/test_device_forms.py

MINUTES ?= 30
GUIDED_MINUTES ?= 5
FLIPS ?= 200
KILLS ?= 100

fuzz: $(READY) ## Try hostile input on the commands for MINUTES (30), by branches too where atheris is
	OMP_NUM_THREADS=1 $(RUN)/python -m tests.fuzz --minutes $(MINUTES)
	OMP_NUM_THREADS=1 $(RUN)/python -m tests.fuzz.guided --minutes $(GUIDED_MINUTES)

flips: $(READY) ## Flip FLIPS (200) single bits in each kind of stored files
	OMP_NUM_THREADS=1 $(RUN)/python -m tests.fuzz.flips --count $(FLIPS)

kills: $(READY) ## Kill training KILLS (100) times on 2 and 3 ranks, go on, and compare
	OMP_NUM_THREADS=1 $(RUN)/python -m tests.fuzz.kills --count $(KILLS) --ranks 2 3

check: $(READY) ## Lint, formatting and types
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

format: $(READY) ## Format the code and fix what lint can fix
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

bench: $(READY) ## Run the short version of most benchmarks
	rm -rf build/bench
	$(RUN)/python -m benchmarks.event_logs --rows 1e6 --events 1e7
	$(RUN)/python -m benchmarks.propagation --edges 1e5 1e6 --seconds 2
	$(RUN)/python -m benchmarks.exchange --ranks 2 --events 4000 --warm-up 6400 --random-nodes 2e4
	$(RUN)/python -m benchmarks.neighbors --events 1e6 --nodes 2e4
	$(RUN)/python -m benchmarks.rank_memory --events 1e6
	$(RUN)/python -m benchmarks.predict --pairs 1e4 --links 4000 --sources 2 --observed 4000
	$(RUN)/python -m benchmarks.train_step --steps 3 --turns 3 --ranking 100 --ranking-events 200
	$(RUN)/python -m benchmarks.scalability --edges 1e5 1e6 --steps 4 --rival-seconds 20 --out build/bench/scalability
	$(RUN)/python -m tpnet_dist.plan --calibrate build/bench/here.toml
	$(RUN)/python -m benchmarks.planner --device build/bench/here.toml --study build/bench/scalability --report-only
	$(RUN)/python -m benchmarks.accuracy --epochs 1 --seeds 0 --models tpnet graphmixer --out build/bench/accuracy
	$(RUN)/python -m benchmarks.efficiency --runs build/bench/accuracy --models tpnet graphmixer --turns 2 --out build/bench/efficiency
	$(RUN)/python -m benchmarks.layer_norms

clean: ## Remove everything that was built, the environment included
	rm -rf build $(VENV)

# torch first: packages that depend on it would otherwise choose a build of their own,
# and DeepSpeed looks for it while it is being built (hence no isolation)
$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; run make PYTHON=/path/to/it")'
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --upgrade pip setuptools wheel ninja py-cpuinfo
	$(RUN)/pip install --quiet "$(TORCH)"
	$(RUN)/pip install --quiet --no-build-isolation --editable '.[dev]'
	touch $@

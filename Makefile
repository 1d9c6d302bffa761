# `make help` lists the targets. The first `make` creates .venv, which takes some minutes.
#
#   make SCALE=multi30k       builds another scale than config.yaml's
#   make PYTHON=python3.12    uses another Python (3.11 or newer)
#   make TORCH_INDEX=https://download.pytorch.org/whl/cpu
#                             installs PyTorch's CPU build, which saves gigabytes on Linux without an NVIDIA GPU

PYTHON ?= python3
TORCH_INDEX ?=

# PATH, because rules call `python`. -m, because .venv/bin/snakemake contains a wrong path after a move of .venv.
# Without bytecode, each of a hundred jobs would compile this package, which takes half a second.
RUN = env -u PYTHONDONTWRITEBYTECODE PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m
INSTALL = $(RUN) pip install --disable-pip-version-check $(addprefix --extra-index-url ,$(TORCH_INDEX))
SCALE = $(shell sed -n 's/^scale: *\([^ ]*\).*/\1/p' config.yaml)

# `make help` prints the text behind each target.
.PHONY: all env help test test-all test-cluster rehearsal lint format lock

# The logger in workflow/logger prints one line per job. The jobs' messages are in logs/.
all: .venv/installed ## all tables, all figures and the page of config.yaml's scale: demo, five minutes on two cores
	@echo "Everything will be on one page: results/$(SCALE)/report.html"
	@PYTHONPATH="$(CURDIR)/workflow/logger" exec $(RUN) snakemake --cores all --config scale=$(SCALE) --logger lines > /dev/null
	@echo "Everything is on one page: results/$(SCALE)/report.html"

env: .venv/installed ## only the environment

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

# Files and classes run in parallel. The tests of a file or class run in one process, because they share fixtures. They
# are not reordered, so that no long test runs last.
SEVERAL = --dist loadscope --no-loadscope-reorder

test: .venv/installed ## the quick tests, three minutes
	$(RUN) pytest --numprocesses auto $(SEVERAL)

# All tests, also slow tests of the whole demo, faults, the browser, LaTeX and the Slurm cluster. Many tests wait for
# the cluster, so three processes keep two cores busy.
test-all: .venv/installed ## all tests, half an hour
	$(RUN) pytest -m "" --numprocesses 3 $(SEVERAL)

# If packages are missing, these tests are skipped. The reason of a skip lists the packages.
test-cluster: .venv/installed ## the tests on a Slurm cluster, which starts on this machine
	$(RUN) pytest -m slow tests/cluster

# Every step of scale `paper` with small artificial archives, from download to page. The page remains.
rehearsal: .venv/installed ## scale paper in small, from the first download to the last table
	$(RUN) pytest -m "" tests/workflow/test_rehearsal.py --basetemp rehearsal
	@echo "Its page: rehearsal/project/results/paper/report.html"

lint: .venv/installed ## style
	$(RUN) pytest tests/project/test_style.py

format: .venv/installed ## fixes most of the style
	$(RUN) ruff check --fix && $(RUN) ruff format && $(RUN) snakefmt Snakefile workflow

# Rebuilt if a pinned version changes. `installed` is created last, so that an interrupted .venv is not complete.
.venv/installed: pyproject.toml requirements.lock
	$(EMPTY)
	$(INSTALL) -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

# Rewrites requirements.lock and the pip section of environment.yml after an edit of pyproject.toml's versions.
lock: ## rebuild requirements.lock and environment.yml from pyproject.toml
	$(EMPTY)
	$(INSTALL) -e '.[workflow,report,serve,test]'
	$(RUN) pip freeze --all --exclude pip --exclude-editable > .venv/frozen
	(grep '^#' requirements.lock; sed -E '/^(nvidia-|cuda-|triton=)/d; s/\+.*//' .venv/frozen) > .venv/lock
	(sed '/- pip:/q' environment.yml; sed -n 's/^[^#]/      - &/p' .venv/lock) > .venv/conda
	mv .venv/lock requirements.lock && mv .venv/conda environment.yml

# The environment of the benchmarks' peers, only for benchmarks: .venv/benchmarks/bin/python -m benchmarks.train ...
# It extends .venv's packages. --no-deps is set because JoeyNMT requires an older protobuf than ours.
.PHONY: benchmarks
benchmarks: .venv/benchmarks/installed ## the environment of the benchmarks' peers

.venv/benchmarks/installed: .venv/installed benchmarks/requirements.txt
	.venv/bin/python -m venv --clear .venv/benchmarks
	.venv/bin/python -c $(SITE) > $$(.venv/benchmarks/bin/python -c $(SITE))/ours.pth
	.venv/benchmarks/bin/python -m pip install --disable-pip-version-check --no-deps -r benchmarks/requirements.txt
	touch $@

SITE = 'import sysconfig; print(sysconfig.get_path("purelib"))'

define EMPTY
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
    "$(PYTHON) is Python %d.%d; 3.11 or newer is needed: make PYTHON=..." % sys.version_info[:2])'
$(PYTHON) -m venv --clear .venv
endef

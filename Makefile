# `make help` lists the targets. Each first makes .venv, which takes some minutes, once.
#
#   make PYTHON=python3.12    makes .venv with another Python, 3.11 or newer
#   make TORCH_INDEX=https://download.pytorch.org/whl/cpu
#                             takes PyTorch's CPU build: on Linux without an NVIDIA GPU this saves gigabytes

PYTHON ?= python3
TORCH_INDEX ?=

# PATH, because rules call `python`. -m, because .venv/bin/snakemake begins with the name of the folder it was made in,
# and this one may have been moved or copied.
RUN = PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m
INSTALL = $(RUN) pip install --disable-pip-version-check $(addprefix --extra-index-url ,$(TORCH_INDEX))
SCALE = $(shell sed -n 's/^scale: *\([^ ]*\).*/\1/p' config.yaml)

# A target's line for `make help` stands behind it.
.PHONY: all env help test test-all test-cluster rehearsal lint format lock

# One line a job, from Snakemake's logger in workflow/logger; what the jobs say is in logs/.
all: .venv/installed ## all tables, all figures and the page of config.yaml's scale: demo, five minutes on two cores
	@echo "Everything will be on one page: results/$(SCALE)/report.html"
	@PYTHONPATH="$(CURDIR)/workflow/logger" $(RUN) snakemake --cores all --logger lines > /dev/null
	@echo "Everything is on one page: results/$(SCALE)/report.html"

env: .venv/installed ## the environment alone

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

# Several files or classes at a time, whose tests share what they make; in our order, so that no long one comes last.
SEVERAL = --dist loadscope --no-loadscope-reorder

test: .venv/installed ## the quick tests, three minutes
	$(RUN) pytest --numprocesses auto $(SEVERAL)

# The slow tests, too: the whole demo, faults, the browser, LaTeX and the Slurm cluster, for which many of them wait:
# three processes keep two cores busy.
test-all: .venv/installed ## all tests, twenty minutes
	$(RUN) pytest -m "" --numprocesses 3 $(SEVERAL)

# The tests on a Slurm cluster alone, which is made for them here; if packages are missing, they are skipped and say which.
test-cluster: .venv/installed ## the tests on a Slurm cluster, which is made for them here
	$(RUN) pytest -m slow tests/cluster

# Scale `paper` in small: every step from the download of archives, made here, to the page, which stays to be looked at.
rehearsal: .venv/installed ## scale paper in small, from the first download to the last table
	$(RUN) pytest -m "" tests/workflow/test_rehearsal.py --basetemp rehearsal
	@echo "Its page: rehearsal/project/results/paper/report.html"

lint: .venv/installed ## style
	$(RUN) pytest tests/project/test_style.py

format: .venv/installed ## mends most of it
	$(RUN) ruff check --fix && $(RUN) ruff format && $(RUN) snakefmt Snakefile workflow

# Made again whenever a pin changes; `installed` comes last, so that an interrupted .venv is not taken for a whole one.
.venv/installed: pyproject.toml requirements.lock
	$(EMPTY)
	$(INSTALL) -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

# After an edit of pyproject.toml's versions: rewrites requirements.lock and environment.yml's pip section.
lock: ## requirements.lock and environment.yml, made again from pyproject.toml
	$(EMPTY)
	$(INSTALL) -e '.[workflow,report,serve,test]'
	$(RUN) pip freeze --all --exclude pip --exclude-editable > .venv/frozen
	(grep '^#' requirements.lock; sed -E '/^(nvidia-|cuda-|triton=)/d; s/\+.*//' .venv/frozen) > .venv/lock
	(sed '/- pip:/q' environment.yml; sed -n 's/^[^#]/      - &/p' .venv/lock) > .venv/conda
	mv .venv/lock requirements.lock && mv .venv/conda environment.yml

# The environment of the benchmarks' peers, which nothing else needs: .venv/benchmarks/bin/python -m benchmarks.train ...
# It adds to .venv's packages. Without --no-deps, pip would refuse: JoeyNMT wants a protobuf that is older than ours.
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

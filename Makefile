# `make` builds the tables of config.yaml's scale, `make test` runs the tests. Both first make .venv, once, some minutes.
#
#   make PYTHON=python3.12    makes .venv with another Python, 3.11 or newer
#   make TORCH_INDEX=https://download.pytorch.org/whl/cpu
#                             takes PyTorch's CPU build: without an NVIDIA GPU on Linux this saves gigabytes

PYTHON ?= python3
TORCH_INDEX ?=

# PATH: rules call `python`. -m: the first line of .venv/bin/snakemake names the folder that .venv was made in, and this
# one may since have been moved or copied.
RUN = PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m
SCALE = $(shell sed -n 's/^scale: *\([^ ]*\).*/\1/p' config.yaml)

.PHONY: all test lint format

all: .venv/installed
	$(RUN) snakemake --cores all
	@echo Tables: results/$(SCALE)/tables/*.md results/$(SCALE)/tables/*.csv

test: .venv/installed
	$(RUN) pytest

lint: .venv/installed
	$(RUN) ruff check && $(RUN) ruff format --check && $(RUN) snakefmt --check Snakefile workflow && $(RUN) snakemake --lint

format: .venv/installed
	$(RUN) ruff check --fix && $(RUN) ruff format && $(RUN) snakefmt Snakefile workflow

# Made anew whenever a pin changes; written last, so that a .venv which was interrupted is not taken for a whole one.
.venv/installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) is Python %d.%d; 3.11 or newer is needed: make PYTHON=..." % sys.version_info[:2])'
	$(PYTHON) -m venv --clear .venv
	$(RUN) pip install --disable-pip-version-check $(addprefix --extra-index-url ,$(TORCH_INDEX)) -r requirements.lock
	$(RUN) pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

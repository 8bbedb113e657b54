.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BUILT := _build/.built
BOOK := _config.yml _toc.yml $(shell find book vitbook data/results data/measurements data/answers data/checkpoints data/heads data/published.json data/experiments.toml \
  -type f -not -path '*/__pycache__/*' -not -path '*/.*' 2>/dev/null)

# The kernel of this environment, whatever other kernels the user has.
export JUPYTER_PREFER_ENV_PATH := 1
export PYTHONNOUSERSITE := 1
# Hundreds of processes import the same modules: they are compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Threads spin only briefly: else a second busy process makes training ten times as slow.
export GOMP_SPINCOUNT := 10000

# One process and one thread a core: two cores are what the project counts on.
WORKERS ?= 2
PARALLEL := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# $(call step,1/3,what it does,command): a line before, a line with the seconds after.
define step
@printf '[%s] %s\n' '$(1)' '$(2)'; start=$$SECONDS; $(3); printf '[%s] done in %s s\n' '$(1)' $$((SECONDS - start))
endef

$(INSTALLED): requirements.lock pyproject.toml tools/install.py
	@$(PYTHON) tools/install.py $(VENV)

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: book
book: $(INSTALLED) ## Execute every chapter and build the pages in _build/html
	$(call step,1/1,Executing the chapters and building the pages,$(BIN)/python tools/build_book.py)

.PHONY: serve
serve: $(BUILT) ## Show the built book on a port of this machine
	@$(BIN)/python tools/serve.py _build/html

.PHONY: test
test: $(INSTALLED) ## Run the unit tests and compare the chapters with their checked outputs
	$(call step,1/2,Unit tests with the shapes checked,$(PARALLEL) tests -m "not slow and not browser")
	$(call step,2/2,The chapters against their checked outputs,VITBOOK_STATIC=1 PYTHONPATH=tools $(PARALLEL) -p chapter_times -p keep_executed --nbval --nbval-current-env book)

.PHONY: pages
pages: $(BUILT) ## Open every built page and every live figure in Chromium
	$(call step,1/2,Every built page,$(BIN)/python -m pytest -n $(WORKERS) tests/book/test_pages.py tests/book/test_reading.py tests/book/test_rendered.py -rs)
	$(call step,2/2,Every live figure,$(PARALLEL) tests/figures -m browser -rs)

.PHONY: lint
lint: $(INSTALLED) ## Check style, formatting, the direction of imports, notebooks, addresses
	$(call step,1/5,Style,$(BIN)/ruff check)
	$(call step,2/5,Formatting,$(BIN)/ruff format --check)
	$(call step,3/5,Imports run one way,$(BIN)/lint-imports)
	$(call step,4/5,Notebooks are clean,$(BIN)/python tools/clean_notebooks.py --check)
	$(call step,5/5,Addresses come from the one setting,$(BIN)/python tools/stamp_address.py --check)

.PHONY: format
format: $(INSTALLED) ## Mend what make lint can mend
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@$(BIN)/python tools/stamp_address.py
	@$(BIN)/python tools/clean_notebooks.py

.PHONY: colab
colab: $(INSTALLED) ## Run the slow tests (ALL=1: all, each chapter with the versions that Colab has among them)
	$(call step,1/1,What is slow,ALL=$(ALL) $(PARALLEL) $$(grep -rl --include='*.py' 'mark\.slow' tests) -m slow -rs --durations=15)

.PHONY: bench
bench: $(INSTALLED) ## Measure the speed of our models against timm's
	$(call step,1/1,Benchmarks,$(BIN)/python -m pytest -o addopts= tests/benchmarks/bench_*.py -s)

.PHONY: pictures
pictures: $(INSTALLED) ## Draw the pictures of the README and of shared pages
	$(call step,1/1,Drawing the pictures of the README,$(BIN)/python tools/pictures.py)

.PHONY: thumbnails
thumbnails: book ## Cut the small pictures of the chapters anew from the built book
	$(call step,1/1,Cutting the thumbnails,$(BIN)/python tools/thumbnails.py)

.PHONY: ledger
ledger: $(INSTALLED) ## Make the runs that data/experiments.toml asks for and the ledger lacks
	@$(BIN)/vitbook experiments run --threads 1

.PHONY: record
record: $(INSTALLED) ## Execute the chapters and store the outputs that make test compares
	$(call step,1/2,Executing the chapters,$(BIN)/jupyter execute --inplace book/*.ipynb)
	$(call step,2/2,Keeping what is checked,$(BIN)/python tools/clean_notebooks.py)

.PHONY: stamp
stamp: $(INSTALLED) ## Carry the address in pyproject.toml to badges, install cells and the citation
	@$(BIN)/python tools/stamp_address.py

.PHONY: lock
lock: $(INSTALLED) ## Pin anew what pyproject.toml asks for
	$(call step,1/1,Resolving requirements.lock,$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --no-header --no-annotate -q -o requirements.lock)

.PHONY: dist
dist: $(INSTALLED) ## Build what an index gets, in dist
	@$(BIN)/python -m build --outdir dist

.PHONY: clean
clean: ## Remove what was built; the environment stays
	@rm -rf _build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove the environment too
	@rm -rf $(VENV)

$(BUILT): $(INSTALLED) $(BOOK)
	@$(MAKE) book

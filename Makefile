# Every target sets up what it needs from a fresh clone: nothing but Python >= 3.11 is expected.
# Another interpreter: make test PYTHON=/path/to/python

VENV ?= .venv
RUN := $(VENV)/bin/python
JOBS ?= 2
PYTEST := $(RUN) -m pytest -n $(JOBS)

# Tests and benchmarks start hundreds of processes: each would compile every module again, for 0.3 s and more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-codegen test-gpu test-isa test-matrix test-tiers bench bench-cold bench-data bench-gpu bench-jobs bench-kvstore bench-memory bench-nets bench-ops bench-price bench-profiler bench-sparse fuzz lint tune-convolutions \
	docs stubs settings-pages wheel clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         train a digit classifier in four ways and profile it"
	@echo "make test         the tests"
	@echo "make test-all     the tests, slow ones included"
	@echo "make fuzz         random programs under every tier (COUNT=2000 START=0)"
	@echo "make test-codegen the tests of numbers, compiled as users' programs are, with each option that mxjax sets"
	@echo "make test-gpu     the tests on a GPU (GPU_JOBS=8 processes share it)"
	@echo "make test-isa     the tests of numbers as on older and newer processors"
	@echo "make test-matrix  the tests on each Python with a JAX that is supported"
	@echo "make test-tiers   the tests with all code interpreted, and with all code compiled (TIERS=\"interpret compile\")"
	@echo "make bench        the benchmarks, as ratios"
	@echo "make bench-cold   what code costs that runs before it is compiled"
	@echo "make bench-data   what reading records and images costs"
	@echo "make bench-gpu    training on a GPU, beside JAX by hand and PyTorch (ONLY=\"lenet bert_128\")"
	@echo "make bench-jobs   everyday jobs from start to end (ONLY=\"vae gan\"), beside MXNet where there is one"
	@echo "make bench-kvstore what sums between devices and processes cost"
	@echo "make bench-memory what rematerialisation saves and costs, in bytes and time"
	@echo "make bench-nets   networks that people train and serve (ONLY=\"unet ssd\"), beside MXNet and PyTorch where there are some"
	@echo "make bench-ops    the eighty most used operators at real sizes"
	@echo "make bench-price  what compiling costs, beside what is reckoned (ONLY=\"ops networks\")"
	@echo "make bench-profiler what the profiler costs"
	@echo "make bench-sparse what a large embedding costs with sparse gradients"
	@echo "make tune-convolutions  measure the forms of convolutions and write the table that chooses (ONLY=\"unet ssd\", CORES=2)"
	@echo "make lint         ruff (rules and format), mypy, and whether stubs and docs are current"
	@echo "make docs         build the site into build/site (NOTEBOOKS=plain: notebooks without outputs)"
	@echo "make stubs        write the stubs of the generated front ends"
	@echo "make settings-pages  write docs/settings from the table of settings"
	@echo "make wheel        build the wheel and try it outside the tree"

demo: $(VENV)/.ready
	$(RUN) benchmarks/demo.py

test: $(VENV)/.ready
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.browser
	$(PYTEST)

COUNT ?= 2000
START ?= 0
fuzz: $(VENV)/.ready
	$(RUN) -m tests.fuzz --count $(COUNT) --start $(START) --jobs $(JOBS)

test-codegen: $(VENV)/.ready
	$(RUN) tests/numeric.py codegen -- -n $(JOBS)

GPU_JOBS ?= 8
test-gpu: $(VENV)/.ready
	$(RUN) -m tests.gpu -n $(GPU_JOBS)

test-isa: $(VENV)/.ready
	$(RUN) tests/numeric.py isa -- -n $(JOBS)

test-matrix:
	tools/matrix $(JOBS)

# `make test` has what users have: NumPy first, programs where they pay.
TIERS ?= interpret compile
test-tiers: $(VENV)/.ready
	for tier in $(TIERS); do MXJAX_ENGINE_COLD=$$tier $(PYTEST) -m "not slow" || exit 1; done

# No program of an earlier run serves a benchmark; bench-jobs measures a second run by itself.
bench bench-% tune-convolutions: export MXJAX_CACHE_DIR :=

bench: $(VENV)/.ready
	$(RUN) benchmarks/run.py

bench-cold: $(VENV)/.ready
	$(RUN) benchmarks/cold.py

bench-data: $(VENV)/.ready
	$(RUN) benchmarks/data.py

bench-gpu: $(VENV)/.ready
	$(RUN) -m benchmarks.gpu $(ONLY)

bench-jobs: $(VENV)/.ready
	$(RUN) -m benchmarks.jobs $(ONLY)

bench-kvstore: $(VENV)/.ready
	$(RUN) benchmarks/kvstore.py

bench-memory: $(VENV)/.ready
	$(RUN) benchmarks/memory.py

CORES ?= 1
bench-nets: $(VENV)/.ready
	$(RUN) -m benchmarks.nets --cores $(CORES) $(ONLY)

bench-ops: $(VENV)/.ready
	$(RUN) benchmarks/ops.py

bench-price: $(VENV)/.ready
	$(RUN) -m benchmarks.price $(ONLY)

bench-profiler: $(VENV)/.ready
	$(RUN) benchmarks/profiler.py

bench-sparse: $(VENV)/.ready
	$(RUN) benchmarks/sparse.py

tune-convolutions: $(VENV)/.ready
	$(RUN) -m benchmarks.tune_convolutions --cores $(or $(CORES),1) $(ONLY)

lint: $(VENV)/.ready
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m mypy
	$(RUN) tools/stubs.py --check
	$(RUN) tools/settings_pages.py --check

NOTEBOOKS ?= run
docs: $(VENV)/.docs
	$(RUN) -m tools.docs --notebooks $(NOTEBOOKS)

stubs: $(VENV)/.ready
	$(RUN) tools/stubs.py

settings-pages: $(VENV)/.ready
	$(RUN) tools/settings_pages.py

wheel: $(VENV)/.ready
	tools/wheel_smoke $(RUN)

# The environment is made again when the requirements change.
$(VENV)/.ready: pyproject.toml setup.py
	tools/make_env $(VENV) "$$(tools/find_python)" -e '.[test,lint]'

# What the traces are opened with in a browser is large, and only the slow tests need it.
$(VENV)/.browser: $(VENV)/.ready
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[browser,docs,types]' && touch $@ || \
		echo "without the extras 'browser' and 'docs': the tests that need them will say so"

# What the site is made with.
$(VENV)/.docs: $(VENV)/.ready
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[docs]' && touch $@

clean:
	rm -rf .venv* build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .stamps

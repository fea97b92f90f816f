# Two commands: `make demo` and `make test`. Both set themselves up in .venv and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SET_UP := $(VENV)/.set-up
SET_UP_DEV := $(VENV)/.set-up-dev
DEMO := runs/demo
# Compiled JAX programs are kept here between runs.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
# So is compiled Python: without, every command that a test starts would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long check docs clean browser

demo: $(SET_UP)
	@mkdir -p $(DEMO)
	@echo "1. A log: 500 episodes of CartPole under random actions."
	$(BIN)/statewise collect cartpole --episodes 500 --seed 0 --out $(DEMO)/first.parquet
	@echo "2. What may be deployed, and what to log next (without --brief: all numbers and checks):"
	$(BIN)/statewise improve $(DEMO)/first.parquet --preset quick --brief --out $(DEMO)/run-1
	@echo "3. Deploy it, and log what it does. (The log is of a simulator: its mean return is the policy's true worth.)"
	$(BIN)/statewise collect cartpole --behaviour $(DEMO)/run-1/policy.safetensors --episodes 500 --seed 1 --out $(DEMO)/second.parquet
	@echo "4. The second round learns from both logs, and is judged by the new one:"
	$(BIN)/statewise improve $(DEMO)/first.parquet $(DEMO)/second.parquet --today $(DEMO)/run-1/policy.safetensors \
	  --preset quick --brief --out $(DEMO)/run-2
	@echo "5. Deploy that, and so on:"
	$(BIN)/statewise collect cartpole --behaviour $(DEMO)/run-2/policy.safetensors --episodes 500 --seed 2 --out $(DEMO)/third.parquet
	@echo "Now open $(DEMO)/run-2/report.html in a browser: the answer with all its reasons."

# Two workers on two cores: more threads for matrix products would only wait for each other. Tests of one file stay with
# one worker, since they share runs that take seconds to make.
test: $(SET_UP_DEV) check browser
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# Tables, policies, runs and settings that were made to break a reader (docs/reliability.md has the numbers of the last
# time), and kills, power losses and load by the hundred (docs/serving.md). Hours.
test-long: $(SET_UP_DEV)
	POLARS_MAX_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tools/reliability.py
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest -m long

check: $(SET_UP_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

# The site, in build/site, after its lists have been made from the code. A broken link or an unknown name is an error.
docs: $(SET_UP_DEV)
	$(BIN)/python tools/docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The report is tested in a real browser where there is one, or one can be installed; this never fails the tests.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq >/dev/null 2>&1 \
	       && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; } \
	  || echo "No Chromium here and none could be installed: the report is not tested in a browser (apt-get install chromium)"

$(SET_UP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(SET_UP_DEV): $(SET_UP)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps 'axe-playwright-python>=0.1.4'  # for axe-core, which it carries; not for playwright
	@touch $@

clean:
	rm -rf $(VENV) .cache runs build dist

# The two commands of the README: `make demo` and `make test`. Both need nothing but Python (3.10+) and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test types pytest accuracy drift bench screens fuzz hostile lock audit wheel mutants clean replay schema pages docs site long

.venv/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# LOCKED=1: exactly what requirements-dev.lock names, checked by its hashes
.venv/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/.demo

demo: .venv/.demo
	$(BIN)/oomph inspect "gemma-4-31b nvfp4"
	$(BIN)/oomph --gpu "2x RTX 5070 Ti" vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2 || test $$? = 1

# the types beside the tests, and one test more than there are cores (many wait for a server or a browser), each to
# whichever is free; the commands that tests start are compiled once
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/.dev
	$(BIN)/ruff check src tests tools plugins
	$(BIN)/ruff format --check src tests tools plugins
	$(MAKE) --no-print-directory -j2 types pytest

types: .venv/.dev
	$(BIN)/mypy

pytest: .venv/.dev
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal

# the comparisons with literal schedulers, with trying everything and of one command with another, with more random cases
long: .venv/.dev
	OOMPH_RANDOM=1 OOMPH_SIMULATE_CASES=500 OOMPH_FIT_PROBLEMS=200 ONE_VOICE=200 OOMPH_GREEN=2000 OOMPH_REFUSALS=all OOMPH_REGRET=300 OOMPH_ACTIONS=200 OOMPH_EXCERPTS=all $(BIN)/python -m pytest -n auto --dist worksteal \
	  tests/simulate/test_agreement.py tests/engines/trtllm/test_trtllm_scheduler.py tests/engines/sglang/test_scheduler.py tests/search/test_exact.py \
	  tests/search/test_regret.py tests/search/test_regret_of_files.py tests/pack/test_pack_regret.py \
	  tests/advice/test_one_voice.py tests/advice/test_refused.py tests/test_green.py tests/web/test_user_actions.py tests/doctor/test_excerpts.py

# TRUTH=folder [MODELS=folder]: further truth sets beside those of tests/truth
accuracy: .venv/.dev
	$(BIN)/python tools/accuracy.py $(TRUTH) $(MODELS)

# WHEELS=folder with an unpacked vLLM release in each folder named by its version
drift: .venv/.dev
	$(BIN)/python tools/drift.py $(WHEELS)

# RIVALS=virtual environment with hf-mem and kvfit: timed beside oomph on the same hub
bench: .venv/.dev
	$(BIN)/python tools/bench.py $(if $(RIVALS),--rivals $(RIVALS))
	$(BIN)/python tools/bench_fit.py --exhaustive

# what the README's commands print, put under them again
screens: .venv/.demo
	$(BIN)/python tools/screens.py

# docs/schema: what every --json prints, from the types; docs/reference: what every command prints; both are checked by tests
schema: .venv/.demo
	$(BIN)/python tools/schemas.py

pages: .venv/.demo
	$(BIN)/python tools/pages.py
	$(BIN)/python tools/manpages.py

# the documentation site in build/site, without network
docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# the catalogue as a static site in build/catalogue: a page per model and per card, every figure planned, links checked
site: .venv/.demo
	$(BIN)/oomph site build/catalogue
	$(BIN)/python tools/site_links.py build/catalogue
	$(BIN)/python tools/site_sample.py build/catalogue

# SECONDS for each reader; hostile: generated inputs through the command line and the page, then 100,000 requests
SECONDS ?= 60
READERS := config safetensors gguf log command yaml makefile notebook hub
fuzz: .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	for target in $(READERS); do $(BIN)/python tests/fuzz/fuzz_$$target.py -max_total_time=$(SECONDS) || exit 1; done

# the lock file of development, made anew; known vulnerabilities of what it names; a wheel that is the same each time
lock: .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.10 --generate-hashes --no-header \
	  --quiet --output-file requirements-dev.lock

audit: .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit || true
	$(BIN)/python tools/audit.py

wheel: .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check hatchling
	$(BIN)/python tools/wheel.py

hostile: .venv/.dev
	$(BIN)/python tests/strangers/hostile.py 2000
	$(BIN)/python tests/strangers/hostile.py page 300
	$(BIN)/python tests/strangers/siege.py 100000

# COUNT=100 [SEED=text] [MAP=folder] [PART=1/8]: changes of the source that no test notices
mutants: .venv/.dev
	$(BIN)/python tools/mutants.py --count $(or $(COUNT),100) $(if $(SEED),--seed $(SEED)) $(if $(MAP),--map $(MAP)) $(if $(PART),--part $(PART))

clean:
	rm -rf .venv

# how the stored answers of BASE (default: the last commit) differ from those here, field by field
replay: .venv/.dev
	$(BIN)/python tools/replay.py diff $(or $(BASE),HEAD)

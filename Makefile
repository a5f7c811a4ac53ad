# The two commands of the README: `make demo` and `make test`. Both need nothing but Python (3.10+) and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check accuracy bench drift fuzz clean

.venv/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/.demo

demo: .venv/.demo
	$(BIN)/oomph inspect "gemma-4-31b nvfp4"

test: .venv/.dev
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy
	$(BIN)/python -m pytest

accuracy: .venv/.dev
	$(BIN)/python tools/accuracy.py

bench: .venv/.dev
	$(BIN)/python tools/bench.py

fuzz: .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	for target in config safetensors gguf; do $(BIN)/python tests/fuzz/fuzz_$$target.py -max_total_time=60 || exit 1; done

clean:
	rm -rf .venv

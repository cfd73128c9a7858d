# The commands of the house. Each installs its requirements: missing Debian packages, the build, the models.
# `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The targets below call one another's tools, not each other: -j belongs to ninja and ctest.
.NOTPARALLEL:

JOBS ?= $(shell nproc)
# Words for ctest, e.g. make test TESTS="-R tokenizer"
TESTS ?=
PROMPT ?= The history of bread begins
FUZZ_SECONDS ?= 60
# Targets of make test-all, instead of all
CHECKS ?=
# Words for versus.py, e.g. make bench BENCH=--quick
BENCH ?=
WEFT := build/release/weft

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
	  while IFS=$$'\t' read -r name text; do printf '  make %-17s %s\n' "$$name" "$$text"; done

.PHONY: setup
setup: ## install the Debian packages that are missing (root or sudo)
	@./scripts/setup.sh build

.PHONY: build
build: setup ## build what is installed: the program (build/release/weft), the library, modules
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target product

.PHONY: cuda
cuda: build ## the module of NVIDIA GPUs (build/release/weft_backend_cuda.so); needs nvcc of CUDA 12 or later
	@cmake --build --preset release -j $(JOBS) --target weft_backend_cuda_module

.PHONY: gpu-check
gpu-check: setup ## what to take to a machine that has a GPU of NVIDIA and nothing else (build/gpu-check.tar.xz)
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target gpu_check
	@./scripts/pack_gpu_check.sh

.PHONY: deb
deb: build ## Debian packages of the program and the library (build/release/*.deb)
	@./scripts/setup.sh deb
	@cd build/release && cpack -G DEB

.PHONY: python
python: build ## a wheel of the Python package (build/python/wheel)
	@python3 scripts/make_wheel.py build/release build/python

.PHONY: docs
docs: build ## the documentation as a site: pages, and the reference of C, C++ and Python (build/docs/index.html)
	@./scripts/setup.sh docs
	@python3 scripts/make_docs.py build/release build/docs

.PHONY: model
model: setup
	@./scripts/fetch_models.py

.PHONY: models
models: setup ## fetch the models that weft is tried with into the model cache
	@./scripts/fetch_models.py --all

.PHONY: run
run: build model ## build weft and read what a real model writes (PROMPT="...")
	@$(WEFT) run -p "$(PROMPT)" -n 64

.PHONY: test
test: setup model ## build everything and run all tests (TESTS="-R name" for some)
	@./scripts/setup.sh test
	@$(call run_tests,release)

.PHONY: test-all
test-all: ## all checks below, on after a failure, with a table at the end (hours; build/test-all/TARGET.log)
	@./scripts/test_all.py $(CHECKS)

.PHONY: test-bare
test-bare: ## make run and make test in a fresh Debian 12 system without anything installed (root)
	@./scripts/bare.sh

.PHONY: test-vulkan
test-vulkan: export WEFT_FAMILIES = all
test-vulkan: setup model ## the tests of Vulkan with every family, op and type, where make test has samples
	@$(call configure,release); \
	cmake --build --preset release -j $(JOBS) --target test_backend_vulkan weft_backend_vulkan_module; \
	ctest --preset release -j $(JOBS) -R '^backend_vulkan' $(TESTS)

.PHONY: test-cuda
test-cuda: export WEFT_FAMILIES = all
test-cuda: setup model ## CUDA's kernels on an emulated GPU with every family and op; with nvcc, their registers and spills
	@$(call configure,release); \
	cmake --build --preset release -j $(JOBS) --target test_backend_cuda; \
	ctest --preset release -j $(JOBS) -R '^backend_cuda' $(TESTS); \
	scripts/check_cuda_statistics.py || (( $$? == 77 ))

.PHONY: test-families
test-families: export WEFT_FAMILIES = all
test-families: setup model ## all golden models, where make test has one of each kind: instruction sets, shards, processes
	@$(call configure,release); \
	cmake --build --preset release -j $(JOBS) --target test_engine test_backend_remote; \
	ctest --preset release -j $(JOBS) -R '^(engine|backend_remote)' $(TESTS)

.PHONY: test-asan
test-asan: setup model ## the tests under the address and undefined-behaviour sanitizers
	@$(call run_tests,asan)

.PHONY: test-tsan
test-tsan: setup model ## the tests under the thread sanitizer
	@$(call run_tests,tsan)

.PHONY: soak
soak: setup model ## 10,000 requests of a server's day under the address and the thread sanitizer
	@for preset in asan tsan; do \
	  [[ -f build/$$preset/build.ninja ]] || cmake --preset $$preset --log-level=WARNING; \
	  cmake --build --preset $$preset -j $(JOBS) --target test_engine; \
	  build/$$preset/tests/engine/test_engine --gtest_also_run_disabled_tests --gtest_filter='ServiceSoak*'; \
	done

.PHONY: test-aarch64
test-aarch64: ## the kernels' tests for AArch64, cross-compiled and under qemu
	@./scripts/setup.sh build aarch64
	@$(call run_tests,aarch64)

.PHONY: test-mpi
test-mpi: setup ## every family on 2 to 4 processes, 10,000 requests, and processes that are killed
	@./scripts/setup.sh test
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release -j $(JOBS) --target test_mpi_long

.PHONY: test-plugins
test-plugins: build ## weft in LangChain, LlamaIndex and llm (these from the package index)
	@python3 tests/python/run.py build/release build/release/python --plugins

.PHONY: test-web
test-web: ## the web page in a real browser (Debian's chromium, Playwright from the package index)
	@./scripts/setup.sh build web
	@[[ -x build/web-venv/bin/pytest ]] || { python3 -m venv build/web-venv; \
	  build/web-venv/bin/pip install -q pytest playwright markdown-it-py axe-playwright-python; }
	@build/web-venv/bin/pytest -q tests/web

.PHONY: test-python-debug
test-python-debug: build ## the Python package in an interpreter that is built for debugging and counts all references
	@./scripts/setup.sh build python-debug
	@CXXFLAGS=-DPy_DEBUG python3-dbg tests/python/run.py build/release build/python-debug

.PHONY: test-ray
test-ray: export WEFT_PROGRAM = $(abspath $(WEFT))
test-ray: build ## replicas on a Ray cluster of several workers (Ray from the package index, some 800 MiB)
	@python3 tests/python/run.py build/release build/release/python --ray

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZ_SECONDS, from its committed seeds
	@./scripts/setup.sh build tools
	@./scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: bench
bench: build models ## weft beside llama.cpp (built once from its source), as ratios (BENCH=--quick)
	@python3 bench/versus.py $(BENCH)

.PHONY: accuracy
accuracy: build models ## how far weft's and llama.cpp's logits are from those of the same model in F32
	@python3 bench/accuracy.py

.PHONY: check-format
check-format: ## whether all C++ files are laid out as .clang-format says
	@./scripts/setup.sh tools
	@git ls-files -co --exclude-standard '*.cpp' '*.h' | xargs -r clang-format-19 --dry-run -Werror

.PHONY: format
format: ## lay out all C++ files as .clang-format says
	@./scripts/setup.sh tools
	@git ls-files -co --exclude-standard '*.cpp' '*.h' | xargs -r clang-format-19 -i

.PHONY: lint
lint: ## clang-tidy over the sources
	@./scripts/setup.sh build tools
	@cmake --preset lint --log-level=WARNING
	@git ls-files 'src/*.cpp' 'cli/*.cpp' | xargs -r -P $(JOBS) -n 4 clang-tidy-19 -p build/lint --quiet

.PHONY: clean
clean: ## remove build/
	@rm -rf build

# $(call configure,PRESET): once; afterwards the build notices by itself what changed.
define configure
[[ -f build/$(1)/build.ninja ]] || cmake --preset $(1) --log-level=WARNING
endef

# Configures again each time: libraries that were installed after `make build` add parts (MPI).
define run_tests
cmake --preset $(1) --log-level=WARNING; \
cmake --build --preset $(1) -j $(JOBS); \
ctest --preset $(1) -j $(JOBS) $(TESTS)
endef

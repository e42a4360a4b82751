# The one entry. Every target sets itself up in .venv; `make` lists them.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest
PORTABLE := build/portable
# uv, where it is installed, takes a third of the time.
INSTALL := $(if $(shell command -v uv),uv pip install -q --python $(BIN)/python,$(BIN)/pip install -q)
# Without Java the demo and the tests say so, and do all but Spark.
SPARK := $(if $(shell command -v java),.venv/connect)

.NOTPARALLEL:
.PHONY: help demo test quick native damage crash cluster chaos soak fuzz strangers property sim interop spark mutants \
        types lint bench wheel portable docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' Makefile

# One stamp per extra of pyproject.toml: .venv/test, .venv/lint, ... EXTRAS are
# installed with the first of them.
.venv/%: pyproject.toml setup.py
	$(PYTHON) -m venv .venv
	$(INSTALL) 'setuptools>=77' 'cffi>=2'
	$(INSTALL) --no-build-isolation -e '.[$(or $(EXTRAS),$*)]'
	@touch $@

.venv/core: .venv/test $(wildcard csrc/*)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

demo: .venv/core $(SPARK) ## kill a writer, then the master of three brokers: recover, fail over, verify; RECOVERY=1: hosts, damage, AutoRecovery
	$(BIN)/pystore demo $(if $(RECOVERY),--recovery) --report build/demo

test: .venv/core $(SPARK) native ## unit and property tests, the C core's own, and with Java those on Spark
	$(PYTEST) -n 2 -m 'not slow'
	$(if $(SPARK),$(PYTEST) -m 'not slow' tests/spark tests/stored/test_stored_spark_jobs.py,@echo 'tests/spark left out: needs Java 17 or 21')

quick: .venv/core ## the tests nearest to what changed, in less than a minute
	$(BIN)/python tests/quick.py

native: ## the C core over an in-memory environment, under sanitizers
	$(MAKE) -C tests/native -j4

damage: .venv/core ## small stores damaged at random, DAMAGE_CASES (600) from PS_SEED on, in JOBS processes
	$(PYTEST) -s -p no:logging $(addprefix -n ,$(JOBS)) tests/damage

crash: .venv/core ## every crash state, and real writers killed
	$(PYTEST) tests/crash

cluster: .venv/core ## three brokers, killed in turn for CLUSTER_SECONDS (120)
	CLUSTER_SECONDS=$(or $(CLUSTER_SECONDS),120) $(PYTEST) -s tests/cluster

chaos: .venv/core $(SPARK) ## brokers and controllers on machines of their own, with faults, in ROUNDS (2) of SECONDS (75); RECOVERY=1: with AutoRecovery, and damage
	$(PYTEST) -q tests/chaos
	$(BIN)/python tests/chaos/run.py --rounds $(or $(ROUNDS),2) --seconds $(or $(SECONDS),75) $(if $(RECOVERY),--recovery)

soak: .venv/core .venv/connect .venv/notebook .venv/bench ## the crash tests with a large budget, for some hours
	$(BIN)/jupyter execute --kernel_name=python3 docs/spark.ipynb
	SPARK_KILLS=30 $(PYTEST) tests/spark
	$(PYTEST) -p no:randomly --benchmark-disable bench
	DAMAGE_CASES=50000 $(PYTEST) -n 2 tests/damage
	CRASH_STATES=5000 CRASH_KILLS=500 CRASH_FAULTS=100 LOST_LOCK_ROUNDS=200 $(PYTEST) tests/crash
	PS_INTERRUPTS=10000 $(PYTEST) tests/unit/store/test_shield.py
	$(PYTEST) -m slow tests/interop tests/cluster
	$(BIN)/python tests/chaos/run.py --rounds 40
	$(BIN)/python tests/chaos/run.py --rounds 24 --recovery
	$(BIN)/python tests/fuzz/strangers.py --seconds 14400 --processor-seconds 3600
	RIG_VERSIONS=all RANDOM_STORES=1000 $(PYTEST) tests/interop/test_versions.py tests/interop/test_random_stores.py

fuzz: ## the scan against hostile bytes, for FUZZ_SECONDS (60)
	tests/fuzz/run.sh $(or $(FUZZ_SECONDS),60)

strangers: .venv/core ## a set that enforces, and strangers at each of its ports, for SECONDS (60)
	$(BIN)/python tests/fuzz/strangers.py --seconds $(or $(SECONDS),60)

property: .venv/core ## the property tests with a large budget
	HYPOTHESIS_PROFILE=thorough $(PYTEST) tests/property

sim: .venv/core ## real nodes in virtual time: histories told TELLINGS (2) times (SAMPLE of them), then SEEDS (50) from FIRST on, and RECOVERIES (20) with AutoRecovery, each for SECONDS at most
	$(PYTEST) $(addprefix --sample ,$(SAMPLE)) tests/sim
	$(BIN)/python tests/sim/run.py --first $(or $(FIRST),0) --seeds $(or $(SEEDS),50) --seconds $(or $(SECONDS),600)
	$(BIN)/python tests/sim/run.py --recovery --first $(or $(FIRST),0) --seeds $(or $(RECOVERIES),20) --seconds $(or $(SECONDS),600)

spark: .venv/core .venv/connect ## executors and drivers killed, on clusters of Spark (needs Java 17 or 21)
	$(PYTEST) -m slow tests/spark

interop: .venv/core .venv/spark ## RocketMQ's own classes read what pystore wrote
	$(PYTEST) -n 2 --dist loadfile -m 'not slow' tests/interop

mutants: .venv/core ## each known mistake, made on purpose, must be noticed; SAMPLE of them
	$(BIN)/python tests/mutants/run.py $(addprefix --sample ,$(SAMPLE))

types: .venv/core .venv/lint .venv/bench .venv/spark ## mypy and pyright, over every file
	$(PYTEST) tests/unit/test_layout.py -m slow
	$(BIN)/mypy setup.py csrc wheels tests
	$(BIN)/mypy bench
	$(BIN)/pyright

lint: .venv/lint ## ruff, clang-format, codespell, validate-pyproject, zizmor
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/zizmor -q --offline --pedantic .github
	$(BIN)/clang-format --dry-run --Werror $(wildcard csrc/*.[ch] bench/*/*.[ch] tests/*/*.[ch])

bench: .venv/core .venv/bench ## numbers beside their limits and rivals, and plots
	$(PYTEST) -p no:randomly bench $(BENCH)
	[ ! -e build/bench/points.json ] || $(BIN)/python bench/plots.py build/bench/points.json bench/plots

wheel: .venv/wheel ## sdist and wheel, checked and repaired, and what a release will build
	rm -rf build dist wheels/out
	$(BIN)/python -m build -o dist
	$(BIN)/python wheels/check_wheel.py dist wheels/out
	$(BIN)/python wheels/check_targets.py

# What the parts do that another system's build does in another way: zeroing, space,
# write-back, checksums.
PORTABLE_TESTS := $(addprefix tests/crash/test_,crash_states.py crashed_openings.py \
        killed_writers.py) tests/unit/test_core.py tests/unit/store/test_store.py

portable: .venv/core ## the build without hardware or Linux extras, tested
	PYSTORE_PORTABLE=1 $(BIN)/python setup.py -q build -b $(PORTABLE) --build-lib $(PORTABLE)/lib
	PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(PORTABLE)/lib $(PYTEST) -m 'not slow' $(PORTABLE_TESTS)
	$(MAKE) -C tests/native -j4 portable

docs: .venv/core ## the examples in README.md and docs/, run
	$(PYTEST) tests/docs

clean: ## remove what was built
	rm -rf .venv build dist wheels/out tests/native/build *.egg-info pystore/_core*.so

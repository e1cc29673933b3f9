# make run    set up, run the main job on a committed benchmark program, show the report
# make test   set up (cross compilers and qemu too, where that is allowed), run the tests
# make check  format, lint, types, import contracts
# make long   all tests, the long ones too
# make ci     check, then all tests, where nothing that tests need may be missing (.ci/run)
# make versions  some tests with the oldest libraries that are allowed, and with the newest Python
# make mutants  break the code on purpose, hundreds of times, and see whether the tests notice
# make fuzz   damaged and hostile files for all that reads one: FUZZ_SECONDS (60) of them
# make bench  speed, as tables: the engine, whole commands on real programs, beside limits
# make performance  measure it again for docs/performance.md
# make results  measure the tables of results, docs/data: all, or PAGES (results-wcet needs no
#               toolchain); what was interrupted is resumed
# make structure  list the packages and their imports, measure the whole; draw docs/layers.svg (needs graphviz's dot)
# make baselines  record again what simprof answers: fixtures/baselines, which `make test` compares
# make golden     record again how reports look at five widths: tests/reports/golden
# make site       the documents as a site, in build/site; what they show, run and compared
# make kernels    shared libraries of the native functions, after a change of one of them (needs ld.lld: apt install lld)
# make runtime    the compiled run-time of instrumented programs, after a change of runtime.c (needs the cross compiler)
# make format, make fixtures, make clean

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)
PROGRAM ?= fixtures/bin/v9/bench.elf
MODE ?= tpp
WORKERS ?= 2
FUZZ_SECONDS ?= 60
PAGES ?=
SOURCES = simulator profiler simprof tests tools
BIN = $(VENV)/bin

.PHONY: run test check long ci mutants fuzz bench performance results structure baselines golden format fixtures clean
.PHONY: kernels runtime toolchain site versions

run: $(VENV)/.installed
	$(BIN)/simprof run --mode=$(MODE) $(PROGRAM)

test: $(VENV)/.installed-dev toolchain
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

long: $(VENV)/.installed-dev toolchain
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --long

# pytest comes last: its closing line, with the counts, is the last one.
# What needs one processor runs beside what needs another.
ci: $(VENV)/.installed-dev
	tools/install_toolchain.sh
	$(MAKE) --jobs=2 --output-sync=target check versions
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --long --strict-skips --durations=30

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

versions: $(VENV)/.installed-dev
	$(BIN)/python tools/versions.py

mutants: $(VENV)/.installed-dev toolchain
	$(BIN)/python tools/mutants.py --workers $(WORKERS)

fuzz: $(VENV)/.installed-dev
	$(BIN)/python tools/fuzz.py --seconds $(FUZZ_SECONDS)

results: $(VENV)/.installed-dev toolchain
	$(BIN)/python -m tools.results $(PAGES) --workers $(WORKERS)

baselines: $(VENV)/.installed-dev
	$(BIN)/simprof regress update fixtures/baselines/micro.baseline
	$(BIN)/simprof regress update fixtures/baselines/wcet.baseline
	$(BIN)/python tools/baselines.py

kernels: $(VENV)/.installed-dev
	PYTHONPATH=. $(BIN)/python tools/ship_kernels.py

runtime: $(VENV)/.installed-dev toolchain
	PYTHONPATH=. $(BIN)/python tools/ship_runtime.py

golden: $(VENV)/.installed-dev
	PYTHONPATH=. $(BIN)/python tools/golden_reports.py

structure: $(VENV)/.installed-dev
	$(BIN)/python tools/structure.py --dot docs/layers.dot
	$(BIN)/python tools/structure.py --svg docs/layers.svg
	$(BIN)/python tools/structure.py

bench: $(VENV)/.installed-dev toolchain
	$(BIN)/python tools/bench.py

performance: $(VENV)/.installed-dev toolchain
	$(BIN)/python tools/bench.py --json docs/performance.json --resume
	$(BIN)/python tools/performance_page.py

site: $(VENV)/.installed-dev
	$(BIN)/python tools/document_outputs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.installed-dev
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

fixtures: $(VENV)/.installed toolchain
	$(BIN)/python tools/build_fixtures.py
	$(BIN)/python tools/build_fixtures.py --suites

toolchain:
	@tools/install_toolchain.sh --optional

$(VENV)/.installed: pyproject.toml tools/bootstrap.py
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer: install one, or set PYTHON" >&2; exit 1; }
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) tools/bootstrap.py $(VENV)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml tools/bootstrap.py
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer: install one, or set PYTHON" >&2; exit 1; }
	@echo "Setting up $(VENV) with the development tools (once)"
	@$(PYTHON) tools/bootstrap.py $(VENV) dev
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

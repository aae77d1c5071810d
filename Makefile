# Every task of the project. `make help` lists them.
BAKEOFF := .venv/bin/bakeoff
PYTEST := .venv/bin/python -m pytest
# Test files at a time: more than CPUs where tests wait for servers, fewer while something measures (tests/conftest.py).
PARALLEL := -n 4
PARALLEL_UNIT := -n 3
PARALLEL_SLOW := -n 3
# Folders whose tests run whole programs: benchmarks, sysbench beside the original, terminals, the validation suite.
WHOLE := bench first_hour sysbench tpcc validation

# The tests start hundreds of Python programs: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# As the command sets it: four workers have no CPU left for NumPy's threads.
export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-slow test-studies test-tpcc test-servers validate validate-full soak check advisories docs record record-check fmt bench bench-client-cost bench-connections bench-loading bench-analysis bench-capture bench-startup bench-harness bench-method fuzz wheel requirements clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing, build into .venv
	@tools/setup

demo: setup ## MySQL 5.7 against 8.0 on this machine, from nothing to a report
	$(BAKEOFF) duel mysql:5.7.22 mysql:8.0.15 --workload oltp_point_select,oltp_read_only --threads 4 \
	    --tables 4 --table-size 100000 --budget 3m

test: ## Rust, Python, real servers, the report in a browser (10 to 18 minutes on 2 CPUs); lists the twenty longest tests
	@tools/setup --tests
	cargo test --quiet --workspace --no-run
	$(PYTEST) $(PARALLEL) -m "not slow" --durations=20

test-unit: setup ## the tests of functions, without a server, a browser or a program of others (1.5 to 3 minutes)
	cargo test --quiet --workspace --no-run
	$(PYTEST) $(PARALLEL_UNIT) -m "not slow and not server and not browser" $(WHOLE:%=--ignore=tests/%)

test-slow: ## all that make test leaves out: statistical claims, every server, study and option (hours)
	@tools/setup --tests
	$(PYTEST) $(PARALLEL_SLOW) -m slow --durations=20

test-studies: setup ## every study that ships, at scale demo, on real servers, its report opened in a browser (50 minutes)
	$(PYTEST) -m "slow and server" tests/studies

test-servers: setup ## every server of the catalogue in turn (downloads about 2 GB)
	$(PYTEST) -m "slow and server" tests/servers tests/run

validate: setup ## the method against known truths: traces, simulated noise, fake servers (minutes; docs/reference/validation.md)
	cargo build --release --quiet -p bakeoff-fakeserver
	.venv/bin/python -m validation suite

validate-full: setup ## the same on real servers (6 to 7 hours)
	cargo build --release --quiet -p bakeoff-fakeserver
	.venv/bin/python -m validation suite --size full

soak: MINUTES = 120
soak: setup ## one duel of MINUTES (120) whose servers crash at random: memory, epochs, what is left behind
	mkdir -p -m 755 /var/tmp/bakeoff-soak
	.venv/bin/python -m validation soak --folder /var/tmp/bakeoff-soak --minutes $(MINUTES)

test-tpcc: setup ## TPC-C on every server of the catalogue, and every option of its command line (30 minutes)
	$(PYTEST) -m "slow and server" tests/tpcc

check: setup ## formatting, lints, types, package boundaries
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	if command -v cargo-deny > /dev/null; then cargo deny --log-level warn check licenses bans sources; fi
	.venv/bin/ruff check . && .venv/bin/ruff format --check .
	.venv/bin/mypy && .venv/bin/lint-imports

advisories: ## known vulnerabilities of the Rust dependencies (network; cargo install cargo-deny)
	cargo deny check advisories

docs: setup ## write the tables of docs/reference/servers.md and docs/reference/study.schema.json anew
	.venv/bin/python tools/docs_tables.py

record: setup ## write the pages and the index of docs/record anew
	.venv/bin/python -m tools.record write

record-check: setup ## fail if a page of docs/record differs from what its data files give
	.venv/bin/python -m tools.record check

fmt: ## format everything
	cargo fmt --all
	.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

bench: bench-client-cost bench-connections bench-loading bench-analysis bench-harness ## all that bench/README.md reports of the engine and the harness (35 minutes)

bench-client-cost: setup ## what the client costs, against sysbench and the bare loop (12 minutes)
	.venv/bin/python bench/client-cost/run.py --server mysql:8.0.15

bench-connections: setup ## memory, start and fairness of 10,000 connections, cost of a slice with 4,096 (3 minutes)
	cargo build --release --quiet -p bakeoff-fakeserver
	.venv/bin/python bench/connections/run.py
	.venv/bin/python bench/connections/slices.py

bench-loading: setup ## rows per second of loading, against sysbench and LOAD DATA (5 minutes)
	.venv/bin/python bench/loading/run.py --server mysql:8.0.15

bench-analysis: setup ## time and memory of analysing and reporting a large run (half a minute)
	.venv/bin/python bench/analysis/run.py

bench-capture: setup ## a slow log of 1 GB read, beside pt-query-digest (Debian's percona-toolkit; 10 minutes)
	.venv/bin/python bench/capture/run.py

bench-startup: setup ## how long the help, a report and sysbench's version take (2 minutes)
	.venv/bin/python bench/startup/run.py

bench-harness: setup ## how much of a study's wall time is measuring (10 minutes)
	.venv/bin/python bench/harness/run.py

bench-method: setup ## what the defaults of the method rest on: restarts, slices, switching, freezing, CPUs (half an hour)
	.venv/bin/python bench/method/run.py all
	.venv/bin/python bench/method/run.py report

MINUTES ?= 0.5
fuzz: ## what a hostile server may send or a file may hold, MINUTES each (default 0.5; nightly Rust and cargo-fuzz; fuzz/README.md)
	fuzz/seed
	for target in greeting login replies template log capture_file dump; do \
	    cargo +nightly fuzz run $$target -- -max_total_time=$$(awk "BEGIN { print int($(MINUTES) * 60) }") || exit 1; done

wheel: DIST = dist
wheel: setup ## dist/: a wheel for this processor (glibc 2.34: Debian 12, Ubuntu 22.04, RHEL 9), and the source distribution
	.venv/bin/maturin sdist --out $(DIST)
	PATH="$$PWD/.venv/bin:$$PATH" pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(DIST) \
	    --config-settings build-args='--compatibility manylinux_2_34' $(DIST)/bakeoff-*.tar.gz

requirements: ## write requirements.txt anew from pyproject.toml
	uv pip compile pyproject.toml --extra dev --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o requirements.txt

clean: ## remove what was built here (not the servers' cache)
	rm -rf target .venv

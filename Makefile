# The two commands a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 20000
QUERIES ?= 400
KILLS ?= 50
SERVER_KILLS ?= 30
BATCHES ?= 20000
# How many tests run at a time. Those of a file stay in one process: they share what was costly to start.
AT_ONCE ?= 2
PYTEST = $(BIN)/python -m pytest -n $(AT_ONCE) --dist loadfile

.PHONY: setup java servers servers-up demo demo-kafka test verify lint docs docs-serve simulate fuzz soak endurance bench bench-full clean

setup: $(VENV)/.installed java
	@$(BIN)/python -m headgate.engine.jvm.class_archive

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Headgate needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (the first time takes a minute or two)..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

java:
	@sh scripts/check_java.sh

demo: setup
	@$(BIN)/python -m headgate.demo

# The same between real servers, which are started for it: Kafka to Kafka and Postgres.
demo-kafka: setup servers
	@$(BIN)/python -m examples.kafka_postgres

# What a newcomer runs: at most 12 minutes on two quiet cores.
test: setup lint
	@$(PYTEST) -m "not verify" --durations=20

# The rest: every golden four ways, every failpoint, clusters, real servers, kills in short.
verify: setup
	@sh scripts/install_servers.sh || test "$$HEADGATE_TEST_SERVERS" != required
	@$(PYTEST) -m verify --durations=60 -rs

servers:
	@sh scripts/install_servers.sh

# Both on loopback until Ctrl-C, to try pipelines with; TOPIC=name creates a topic of three partitions.
servers-up: setup servers
	@$(BIN)/python -m tests.support.servers $(if $(TOPIC),--topic $(TOPIC) --partitions 3)

lint: setup
	@$(BIN)/ruff check src tests bench examples manual
	@$(BIN)/ruff format --check src tests bench examples manual
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The documentation as a site, in site/; `make docs-serve` shows it while one writes, on loopback.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Built: site/index.html"

docs-serve: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

simulate: setup
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

# Random queries against Spark's batch answer; FIRST=n starts at another seed.
fuzz: setup
	@$(BIN)/python -m tests.fuzz --count $(QUERIES) --first $(or $(FIRST),1000)

# Kills at random moments, also between real servers, then every failpoint at every moment: an hour or more.
soak: setup servers
	@$(BIN)/python -m tests.faults.soak --kills $(KILLS)
	@$(BIN)/python -m tests.servers.test_kills --kills $(SERVER_KILLS)
	@FAULTS=all $(BIN)/python -m pytest tests/faults tests/hosts tests/contracts/test_cleanup_slices_s3.py \
	  tests/integration/test_exactly_once.py tests/integration/test_executors.py \
	  tests/integration/test_executors_come_and_go.py

# One small job through many micro-batches: what of it grows? An hour or more; writes docs/endurance.md.
endurance: setup
	@$(BIN)/python -m tests.endurance --batches $(BATCHES) --page docs/endurance.md

bench: setup
	@$(BIN)/python -m bench --quick

bench-full: setup
	@$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .demo .demo-kafka site

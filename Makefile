# What a newcomer types. `make help` lists it. Needs Rust, gcc, make and pkg-config; servers come from scripts/services.sh.

SHELL := /bin/bash
CARGO ?= cargo
export CARGO_TARGET_DIR ?= $(CURDIR)/target
SERVICES := scripts/services.sh run
# The real shop's orders, where the tests find them; those that need them say so when they are absent.
SHARED_DATA := $(wildcard ../shared/data)
ifneq ($(SHARED_DATA),)
export LASTUNIT_TEST_DATA ?= $(abspath $(SHARED_DATA))
endif
# Clippy, the documentation and the tests share this, so that nothing is built twice: the named points where a test can hold a
# worker, and what nobody gets by default.
FEATURES := lastunit/checkpoints,lastunit/otlp
CHECKED := --workspace --features $(FEATURES) --locked

# Inputs of `make fuzz`.
RUNS ?= 1000000

.PHONY: help demo test lint docs advisories build benches fuzz compat chaos

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' Makefile

demo: build ## Three workers race for the last unit, on real RabbitMQ and Redis
	$(SERVICES) rabbitmq redis -- bash -c '\
	  "$$CARGO_TARGET_DIR/release/lastunit" demo --units 1 --orders 500 --workers 3 && echo && \
	  "$$CARGO_TARGET_DIR/release/lastunit" demo --units 100 --orders 5000 --workers 3'

build: ## The program, optimised, in target/release
	$(CARGO) build --release --locked --bin lastunit

lint: ## Format and clippy, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(CHECKED) --all-targets -- -D warnings

docs: ## The code's documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(CHECKED) --no-deps

# Offline: a check that needs the network fails for reasons that are not this code's.
advisories: ## Known advisories and licences of the dependencies, where cargo-deny and its database are at hand
	@if ! command -v cargo-deny >/dev/null; then \
	  echo "not checked: advisories and licences (cargo install cargo-deny, then cargo deny fetch)"; \
	elif ! compgen -G "$${CARGO_HOME:-$$HOME/.cargo}/advisory-dbs/*/" >/dev/null; then \
	  echo "not checked: advisories (cargo deny fetch)"; cargo deny --offline check licenses bans sources; \
	else cargo deny --offline check; fi

test: lint docs advisories ## Everything that must hold before a change lands; the same as CI
	$(SERVICES) rabbitmq redis postgres mariadb -- $(CARGO) test $(CHECKED) --no-fail-fast

benches: ## Planner and parser by themselves (the whole worker: lastunit bench)
	$(CARGO) bench --locked --bench parser --bench planner

# The sanitizer's flags are not stable yet, so a stable compiler has to be told that it may.
fuzz: ## The parser on RUNS generated inputs (a million): no panic, no hang, and the same reading as a plain reader's
	@command -v cargo-fuzz >/dev/null || { echo "make fuzz needs cargo-fuzz and a C++ compiler: cargo install cargo-fuzz --locked" >&2; exit 1; }
	@mkdir -p fuzz/corpus/order
	cd fuzz && RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run order corpus/order seeds -- -runs=$(RUNS) -timeout=10 -max_len=4096 -dict=order.dict -print_final_stats=1

compat: ## The end-to-end tests against newer servers (root, 2 GB of Debian's newer suites); SERVERS="redis@sid …" for some
	CARGO="$(CARGO)" scripts/compat.sh $(SERVERS)

SECONDS ?= 1800
chaos: build ## Kills, crashes and cut links for SECONDS (1800), on servers of its own; SEED repeats a plan
	LASTUNIT_BIN="$$CARGO_TARGET_DIR/release/lastunit" LASTUNIT_CHAOS_SECONDS="$(SECONDS)" LASTUNIT_CHAOS_SEED="$(SEED)" \
	  $(CARGO) test --features $(FEATURES) --locked --test chaos -- --nocapture --exact \
	  nothing_is_lost_and_nothing_decided_twice_whatever_fails

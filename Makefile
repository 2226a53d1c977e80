# make demo         set up from nothing, then weigh this machine with the study first-look
# make install      set up from nothing, then put hypertare into PREFIX/bin (/usr/local, or ~/.local)
# make uninstall    take it away again
# make test         set up from nothing, then every test but those that only a release needs
# make test-quick   the tests that boot no guest, carry out no whole runs and start no browser
# make fuzz         wrong studies, records, plans and runs by the thousand: EXAMPLES=20000 of each kind
# make torture      faults at random moments of N real runs (docs/torture.md); as root
# make release-check  what only a release needs: all of the above, exact repetition, fresh machines; hours
# make wheel        dist/hypertare-*.whl with the agent in it: for pip, uvx, PyPI
# make deb          dist/hypertare_*.deb of that wheel, with the Python packages it needs: for Debian 12
# make oci          dist/hypertare-*.oci.tar, an image with that package and QEMU: for podman and docker
# make bench        hypertare's own speed beside iperf3, fio, hyperfine and the kernel's floor
.DEFAULT_GOAL := help
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
N = 100
SEED = 1
FROM = 0
HYPERTARE = .venv/bin/hypertare
# Compiled tests are kept: each worker reads all of them.
PYTEST = env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest --no-loadscope-reorder
# Tests wait for half of their time: for a program to end, a limit to come, a file to be written.
WORKERS = $(shell echo $$((2 * $$(nproc))))

help:
	@sed -n 's/^# //p' Makefile

setup:
	@tools/setup run

demo: setup
	@$(HYPERTARE) run first-look

install:
	@tools/setup install
	@mkdir -p $(PREFIX)/bin
	@ln -sfn $(CURDIR)/$(HYPERTARE) $(PREFIX)/bin/hypertare
	@echo "$(PREFIX)/bin/hypertare"

uninstall:
	@rm -f $(PREFIX)/bin/hypertare

setup-test:
	@tools/setup test

test: setup-test lint
	cargo test -q --locked --all-features -- --test-threads $(WORKERS)
	$(PYTEST) -m "not guest and not release" -n $(WORKERS) --dist loadscope --durations 25
	tools/test-guests

test-quick: setup-test lint
	cargo test -q --locked --all-features -- --test-threads $(WORKERS)
	$(PYTEST) -m "not guest and not runs and not release" -n $(WORKERS) --dist loadscope

EXAMPLES = 20000
fuzz: setup-test
	HYPERTARE_EXAMPLES=$(EXAMPLES) cargo test -q --locked -p hypertare-agent mutated
	HYPERTARE_EXAMPLES=$(EXAMPLES) $(PYTEST) --timeout 0 tests/properties -n auto

## Side by side: each is busy on one CPU for much of its time.
lint:
	@$(MAKE) --no-print-directory -j 2 lint-python lint-rust

lint-python:
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/lint-imports --no-logo
	.venv/bin/mypy
	tools/words

lint-rust:
	cargo fmt --check
	cargo clippy -q --locked --all-targets --all-features -- -D warnings

torture: setup-test
	@.venv/bin/hypertare image build >/dev/null
	@.venv/bin/python -m tests.torture -n $(N) --seed $(SEED) --from $(FROM) \
		$(if $(SHARED),--shared) $(if $(JOBS),--jobs $(JOBS)) $(if $(FAULT),--fault "$(FAULT)") $(if $(JSON),--json $(JSON))

wheel: setup
	@.venv/bin/python -m hatchling build -t wheel -d dist

deb: wheel
	@tools/deb

oci: deb
	@tools/oci dist/hypertare_*_amd64.deb

release-check: test oci
	$(PYTEST) -m release
	$(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory torture
	.venv/bin/python -m tests.torture.exact
	tools/fresh-machine
	tools/fresh-machine --deb dist/hypertare_*_amd64.deb
	tools/fresh-machine --wheel dist/hypertare-*.whl

bench:
	@tools/setup bench
	.venv/bin/python bench/run.py

clean:
	rm -rf target .venv .tools

.PHONY: help setup demo install uninstall setup-test test test-quick fuzz lint lint-python lint-rust torture wheel deb oci release-check bench clean

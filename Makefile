# make demo         set up from nothing, then weigh this machine with the study first-look
# make install      set up from nothing, then put hypertare into PREFIX/bin (/usr/local, or ~/.local)
# make uninstall    take it away again
# make test         set up from nothing, then every test
# make test-quick   the tests that boot no guest and carry out no whole runs
# make bench        hypertare's own speed beside iperf3, hyperfine and the kernel's floor
.DEFAULT_GOAL := help
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
HYPERTARE = .venv/bin/hypertare
PYTEST = .venv/bin/python -m pytest

help:
	@sed -n 's/^# //p' Makefile

setup:
	@tools/setup run

demo: setup
	@$(HYPERTARE) run first-look

install: setup
	@mkdir -p $(PREFIX)/bin
	@ln -sfn $(CURDIR)/$(HYPERTARE) $(PREFIX)/bin/hypertare
	@echo "$(PREFIX)/bin/hypertare"

uninstall:
	@rm -f $(PREFIX)/bin/hypertare

setup-test:
	@tools/setup test

test: setup-test lint
	cargo test -q --locked
	$(PYTEST) -m "not guest" -n auto --dist loadscope
	tools/test-guests

test-quick: setup-test lint
	cargo test -q --locked
	$(PYTEST) -m "not guest and not runs" -n auto --dist loadscope

lint:
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	cargo fmt --check
	cargo clippy -q --locked --all-targets -- -D warnings

bench:
	@tools/setup bench
	.venv/bin/python bench/run.py

clean:
	rm -rf target .venv .tools

.PHONY: help setup demo install uninstall setup-test test test-quick lint bench clean

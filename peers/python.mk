# A program of the Python registry in an environment of its own, so that its libraries need not agree with ours. Whoever includes
# this says what the PROGRAM is called; it is made in $(PEERS_CACHE)/<directory>-<hash>/, once per version: the name says all that
# the content depends on, and a checkout whose files are younger must not take it away from those who run it.
SHELL := /bin/bash
PEERS_CACHE ?= $(HOME)/.cache/muster/peers
PYTHON ?= python3
OUT := $(PEERS_CACHE)/$(notdir $(CURDIR))-$(shell cat requirements.lock | sha256sum | cut -c1-16)

.PHONY: all path lock

all: $(OUT)/bin/$(PROGRAM)

$(OUT)/bin/$(PROGRAM):
	@rm -rf $(OUT)
	$(PYTHON) -m venv $(OUT)
	$(OUT)/bin/pip install -q --require-hashes -r requirements.lock

path: ## the directory that the program is in
	@echo $(OUT)/bin

lock: ## resolve anew; needs ../../.venv
	../../.venv/bin/uv pip compile -q --system-certs --upgrade --universal --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --python-version 3.11 requirements.in -o requirements.lock

# Every target sets up what it needs in .venv, once: a second `make` goes straight to the work.
# Plain enough for GNU make 3.81, which is what macOS has.

PYTHON = python3
VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --disable-pip-version-check -q --prefer-binary -c constraints.txt

.PHONY: help demo test system check lint bench chaos suite docs release format clean

help:
	@echo "make demo    install, simulate two sensors and find what they have in common, in demo-output/"
	@echo "make test    lint, format and types, then every test, those of layers and dependencies among them"
	@echo "make check   lint, format, types, layers and dependencies"
	@echo "make bench   one table of ratios, and bench-output/bench.json"
	@echo "make chaos   kill a hundred runs and twenty nights at random moments and resume them; the table in docs/"
	@echo "make suite   tests with all of their parameters; problems with known answers, ours and other methods side by"
	@echo "             side, the tables in docs/; and all experiments of the paper, in reproduce-output/"
	@echo "make docs    the documentation, in docs/_build/html"
	@echo "make release wheel and source archive in dist/, checked, and the demo run from the wheel alone"
	@echo "make format  put the code in the form that check asks for"
	@echo "make clean   remove all that the other targets made"
	@echo "With another Python (3.11 or newer): make PYTHON=/path/to/python demo"

demo: $(VENV)/core.stamp
	$(BIN)/dlcca demo --out demo-output

# Four test processes with one thread of arithmetic each: on two cores, some of them mostly wait, for a queue or a clock.
PYTEST = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist loadscope --no-loadscope-reorder
test: lint system
	$(PYTEST) -m "not repeats"

# A queue, a network, a cron and a browser for the tests that need real ones; elsewhere than on Debian as root they
# skip, and say why.
SYSTEM = slurm-wlm munge iproute2 cron chromium
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& ! { command -v slurmctld && command -v ip && command -v cron && command -v chromium; } >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq --no-install-recommends $(SYSTEM) >/dev/null 2>&1 \
			|| { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(SYSTEM); } >/dev/null 2>&1 \
			|| echo "$(SYSTEM) cannot be installed; the tests that need them will skip"; \
	fi

check: lint
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_dependencies.py

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy dlcca

bench: $(VENV)/dev.stamp
	PYTHONPATH=. $(BIN)/python benchmarks/bench.py

chaos: $(VENV)/dev.stamp
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python tests/faults/chaos_table.py \
		--page docs/explanation/chaos.md
	PYTHONPATH=. $(BIN)/python tests/faults/late_table.py --storage local
	PYTHONPATH=. $(BIN)/python tests/faults/late_table.py --storage object
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 DLCCA_TEST_KILLS=20 $(BIN)/python -m pytest -m "" tests/pipelines/test_kills.py

suite: $(VENV)/dev.stamp system
	$(PYTEST) -m repeats
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python -m tests.suite \
		--page docs/explanation/suite.md
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python -m tests.suite.growth \
		--page docs/explanation/growth.md
	$(BIN)/dlcca reproduce --out reproduce-output

docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -E -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The wheel is built from the source archive, as others will build it, and the demo is run where nothing else is.
release: $(VENV)/release.stamp
	rm -rf dist
	$(BIN)/python -m hatchling build -t sdist -d dist
	$(BIN)/python -m pip wheel --disable-pip-version-check -q --no-deps --no-build-isolation -w dist dist/dlcca-*.tar.gz
	$(BIN)/python -m twine check --strict dist/*
	rm -rf dist/empty && $(PYTHON) -m venv dist/empty
	dist/empty/bin/python -m pip install --disable-pip-version-check -q --prefer-binary -c constraints.txt dist/dlcca-*.whl
	cd dist/empty && bin/dlcca demo --out demo-output
	cd dist/empty && bin/dlcca report demo-output/run.zarr --out report.html && bin/dlcca verify demo-output/run.zarr
	cd dist/empty && bin/dlcca cluster profiles --out my-cluster && bin/dlcca pipeline examples --out my-settings
	rm -rf dist/empty
	@ls -l dist

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) docs/_build docs/_figures demo-output reproduce-output build dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find dlcca tests docs -type d -name __pycache__ -prune -exec rm -rf {} +

# --clear, and a stamp of its own: a half-made environment is made again, not trusted.
$(VENV)/made.stamp:
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: install Python 3.11 or newer, or set PYTHON"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dlcca needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
			"Name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/core.stamp: $(VENV)/made.stamp pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/made.stamp pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/core.stamp

$(VENV)/release.stamp: $(VENV)/made.stamp pyproject.toml constraints.txt
	$(PIP) -e '.[release]'
	@touch $@ $(VENV)/core.stamp

$(VENV)/docs.stamp: $(VENV)/made.stamp pyproject.toml constraints.txt
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/core.stamp

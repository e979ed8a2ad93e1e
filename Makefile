# Front door. Everything real is in CMakeLists.txt; this names the usual jobs.
CMAKE_FLAGS ?=
JOBS        ?= $(shell nproc)

.PHONY: help setup build program demo test test-long docs bench fuzz attack results format clean

help:
	@echo "make build      install what is missing, configure and compile: build/mac"
	@echo "make program    the same for the program alone: fewer packages, no tests, no Python"
	@echo "make demo       make program; a report of trained closures at once, then train one yourself"
	@echo "make test       build and run all tests"
	@echo "make test-long  the studies that take longer than the test suite may"
	@echo "make docs       the documentation as a site: build/site/index.html"
	@echo "make bench      measure the hot paths; a record in bench/history and the page of the trend"
	@echo "make fuzz       random input for every parser (clang), SECONDS=30 each"
	@echo "make attack     flipped bits, kills and damaged HDF5 files, with counts"
	@echo "make results    docs/results.md and the model cards from results/ and zoo/"
	@echo "make format     clang-format all sources"

setup:
	@scripts/setup

build: setup
	@cmake --preset release $(CMAKE_FLAGS)
	@cmake --build build --parallel $(JOBS)

program:
	@scripts/setup program
	@cmake --preset program $(CMAKE_FLAGS)
	@cmake --build --preset program --parallel $(JOBS)

demo: program
	@scripts/demo

test: build
	@ctest --test-dir build --output-on-failure --parallel $(JOBS) --label-exclude long

test-long: build
	@ctest --test-dir build --output-on-failure --label-regex long

docs: setup
	@scripts/docs

bench: build
	@bench/record
	@bench/compare --markdown bench/history/*.json > docs/speed-history.md

fuzz:
	@scripts/fuzz $(or $(SECONDS),30)

attack: build
	@scripts/attack flips 20000
	@scripts/attack kills 500
	@scripts/attack hdf5 2000

results: build
	@scripts/results

format:
	@git ls-files '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' | xargs -r clang-format -i

clean:
	rm -rf build build-*

# Two commands do all the set-up on a bare Debian machine: `make run`, `make test`.

BUILD ?= build
ASAN  ?= build-asan
FUZZ  ?= build-fuzz
# nvcc takes minutes for the device code; the tests run it on a simulator.
MESON_FLAGS ?= $(if $(CI),-Dwerror=true -Dcuda=disabled,)

BUILD_PACKAGES = gcc g++ libc6-dev meson ninja-build pkg-config libyaml-dev libsqlite3-dev libevent-dev \
	libssh2-1-dev libgpg-error-dev libssl-dev zlib1g-dev libzstd-dev libjansson-dev libmd-dev libpcre2-dev \
	libutf8proc-dev libcurl4-openssl-dev openssh-client
TEST_PACKAGES = python3 curl sudo openssh-server iproute2 nftables procps e2fsprogs podman runc busybox-static csh tcsh faketime tzdata

PROGRAMS = engine/cli/flowrun tasks/flownode trainer/cli/flowtrain

.PHONY: programs run all test test-all sanitized fuzz torture bench clean
programs: $(BUILD)/build.ninja
	ninja -C $(BUILD) $(PROGRAMS)

run: programs
	$(BUILD)/engine/cli/flowrun pipelines/deepseek-lora.yaml

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

# ASAN= (empty) leaves the sanitizers out; test-all runs those of tests/whole.txt too.
test test-all: $(BUILD)/test-packages all $(ASAN:%=sanitized)
	python3 tests/suite.py $(if $(@:test=),--all) $(BUILD) $(ASAN:%=%:unit,op)

sanitized: $(ASAN)/build.ninja
	ninja -C $(ASAN) sanitized

# Each target of tests/fuzz, by libFuzzer: clang and its compiler-rt are needed, and hours.
FUZZ_RUNS ?= 10000000
FUZZ_SECONDS ?= 3600
fuzz: $(FUZZ)/build.ninja
	ninja -C $(FUZZ) tests/fuzz/fuzz
	tests/fuzz/run.sh $(FUZZ) $(FUZZ_RUNS) $(FUZZ_SECONDS)

bench: all
	tests/bench/engine.sh $(BUILD)
	tests/bench/home.sh $(BUILD)
	tests/bench/host.sh $(BUILD)
	python3 tests/bench/schedules.py $(BUILD)
	python3 tests/bench/page.py $(BUILD)
	python3 tests/bench/crowd.py $(BUILD)
	python3 tests/bench/failure.py $(BUILD)
	python3 tests/bench/slurm.py $(BUILD)
	tests/bench/trainer.sh $(BUILD)
	tests/bench/full.sh $(BUILD)
	tests/bench/chips.py $(BUILD)

# Hours: every kill of a recorded run, simulated and of the real programs, 20,000 random cases. SEED=N
torture: all
	tests/fault/torture.sh $(BUILD) $(SEED)

clean:
	rm -rf $(BUILD) $(ASAN) $(FUZZ)

$(BUILD)/build.ninja: $(BUILD)/packages
	meson setup $(MESON_FLAGS) $(BUILD)

# At this level the compiler warns of what the other build proves to be nothing.
$(ASAN)/build.ninja: $(BUILD)/packages
	meson setup $(MESON_FLAGS) -Dwerror=false -Dcuda=disabled -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false $(ASAN)

$(FUZZ)/build.ninja: $(BUILD)/packages
	CC=clang meson setup -Dfuzz=enabled -Db_sanitize=address,undefined -Db_lundef=false $(FUZZ)

# Packages are looked for once; a stamp file remembers.
$(BUILD)/packages: Makefile
	@sh .ci/packages $(BUILD_PACKAGES)
	@mkdir -p $(BUILD) && touch $@

$(BUILD)/test-packages: Makefile
	@sh .ci/packages $(TEST_PACKAGES)
	@mkdir -p $(BUILD) && touch $@

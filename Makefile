# SPDX-License-Identifier: GPL-2.0-only
#
# For people: builds the user side and the module, and starts guests and checks. Kbuild, next to this
# file, is what the kernel's build system reads.

KDIR ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr/local

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wpedantic

# Sources of the module without kernel headers, which programs and unit tests share.
PURE := schedule verdict offsets discipline

# The directory in arch/ for the machine that the compiler makes code for.
# Nothing where there is no compiler yet, for make setup.
TARGET := $(shell $(CC) -dumpmachine 2> /dev/null)
ARCH_DIR := $(if $(TARGET),$(if $(filter x86_64-%,$(TARGET)),x86),x86)
ifeq ($(ARCH_DIR),)
$(error $(CC) makes code for '$(TARGET)', but arch/ only has x86: use a compiler for x86_64)
endif

INCLUDES := -Iinclude -Iinclude/uapi -Iarch/$(ARCH_DIR)/include -I.
COMPILE = $(CC) -std=gnu11 -D_GNU_SOURCE $(CFLAGS) $(WARNINGS) $(CPPFLAGS) $(INCLUDES) -MMD -MP
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -Ikunit/native

pure := $(patsubst core/%.c,%,$(wildcard $(PURE:%=core/%.c)))
# The command fastclk has several sources. Any other file in tools/ is a program of its own.
fastclk_parts := bench command facts json measure now status status_json
tools := $(patsubst %.c,build/%,$(filter-out tools/main.c $(fastclk_parts:%=tools/%.c), \
	$(wildcard tools/*.c))) build/tools/fastclk
selftests := $(patsubst %.c,build/%,$(wildcard selftests/*.c))
kunit := $(patsubst %.c,build/%,$(wildcard kunit/*_test.c))
kunit_shared := $(patsubst %.c,build/obj/sanitized/%.o, \
	$(pure:%=core/%.c) $(wildcard kunit/native/*.c))
library := $(if $(pure),build/libfastclk-core.a)

# Shown in short, or in full with V=1.
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $@)

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all help user kunit selftests-or-why module-or-why modules modules_install demo check soak bench setup clean \
	install

all: $(tools) selftests-or-why module-or-why ## what can be built here for this machine (default)

help: ## this list
	@awk -F ':.*## ' '/^[a-z_]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

user: $(tools) $(selftests) ## tools and self-tests only
	@:

kunit: $(kunit) ## unit tests for this machine, with sanitizers
	@:

selftests-or-why:
ifneq ($(wildcard /usr/include/cmocka.h),)
	+@$(MAKE) user
else
	@echo "left out the self-tests: there is no cmocka.h (Debian: libcmocka-dev)"
endif

module-or-why:
ifneq ($(wildcard $(KDIR)/Makefile),)
	+@$(MAKE) modules
else
	@echo "left out the module: there are no kernel headers in $(KDIR)" \
		"(make demo and make check need none)"
endif

modules: ## the module; KDIR=... for another kernel, FAULT_INJECTION=1 for tests
	+$(Q)$(MAKE) -C $(KDIR) M=$(CURDIR) W=1 $(if $(filter 1,$(FAULT_INJECTION)),FAULT_INJECTION=1) modules

modules_install: ## installs the module for the kernel of KDIR
	+$(Q)$(MAKE) -C $(KDIR) M=$(CURDIR) modules_install

demo: setup ## boots a guest and shows the clock in it
	+@$(MAKE) user
	@vm/demo

check: setup ## all tests, here and in guests
	+@$(MAKE) user kunit
	@selftests/check

soak: export SOAK := 1
soak: check ## all tests, for hours

bench: setup ## what reading the clock costs on this machine, and whether limits are kept
	+@$(MAKE) build/bench/reader
	@build/bench/reader

setup: ## installs the Debian packages that are missing for these
	@vm/install-packages

install: $(tools) ## tools, headers and manual; takes DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/linux \
		$(DESTDIR)$(PREFIX)/include/fastclk $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 man/fastclk.1 $(DESTDIR)$(PREFIX)/share/man/man1
	$(if $(tools),install -m 755 $(tools) $(DESTDIR)$(PREFIX)/bin)
	$(if $(wildcard include/*.h),install -m 644 $(wildcard include/*.h) \
		$(DESTDIR)$(PREFIX)/include)
	install -m 644 $(wildcard include/fastclk/*.h arch/$(ARCH_DIR)/include/fastclk/*.h) \
		$(DESTDIR)$(PREFIX)/include/fastclk
	install -m 644 include/uapi/linux/fastclk.h $(DESTDIR)$(PREFIX)/include/linux

clean: ## removes all that was built
	rm -rf build .tmp_versions Module.symvers modules.order
	find . -name build -prune -o -name .git -prune -o \
		\( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \) \
		-type f -exec rm -f {} +

# --- what is built

build/tools/fastclk: build/obj/tools/main.o $(fastclk_parts:%=build/obj/tools/%.o)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

build/bench/%: build/obj/bench/%.o $(fastclk_parts:%=build/obj/tools/%.o)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

build/tools/%: build/obj/tools/%.o $(library)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -pthread -lm $(LDLIBS)

# Links in the subcommands of fastclk.
build/selftests/notsc: $(fastclk_parts:%=build/obj/tools/%.o)

build/selftests/%: build/obj/selftests/%.o $(library)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -pthread -lm -lcmocka $(LDLIBS)

build/kunit/%: build/obj/sanitized/kunit/%.o $(kunit_shared)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -o $@ $^ -pthread -lm -lcmocka $(LDLIBS)

build/libfastclk-core.a: $(pure:%=build/obj/core/%.o)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

build/obj/sanitized/%.o: %.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(SANITIZE) -c -o $@ $<

build/obj/%.o: %.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -pthread -c -o $@ $<

-include $(shell find build/obj -name '*.d' 2> /dev/null)

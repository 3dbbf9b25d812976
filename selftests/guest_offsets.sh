#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Counters that differ by constants can be used: the verdict, the table, and a reader that applies it. In
# lockstep, and where the kernel keeps time with another clocksource, so that samples and joints need the
# table, too. With SOAK=1, 10 million hand-overs in each case.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

stamps=$([[ ${SOAK:-} ]] && echo 10000000 || echo 300000)

in_guest 'in lockstep' "
	/selftests/offsets one /fastclk.ko $stamps
	/selftests/offsets wander /fastclk.ko
" -s 4 -t $((${SOAK:+7000} + 300)) --fault-injection
in_guest 'with hpet' "
	/selftests/offsets all /fastclk.ko $stamps
" -s 4 -t $((${SOAK:+7000} + 300)) --fault-injection -A clocksource=hpet
tap_end

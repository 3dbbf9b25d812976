#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Where another clocksource than the counter drives the kernel's clocks: the published bound holds, is
# small on a machine at rest, and nothing goes back, while clocks are steered and set, CPUs are busy, and
# while the clocksource is changed to and fro. SOAK=1 takes minutes.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

if [[ -n ${SOAK:-} ]]; then
	each=300 checks=5000000 switching=300
else
	each=10 checks=500000 switching=20
fi
current=/sys/devices/system/clocksource/clocksource0/current_clocksource

# The kernel rejects the TSC, and takes hpet.
in_guest 'whose kernel rejects the counter' "
	/selftests/bound rest 1000
	/selftests/disturb /selftests/bound kernel 2000
	/selftests/disturb /selftests/bound --busy $each $checks
	/selftests/stale
	echo acpi_pm > $current; /selftests/bound rest 1000
	/selftests/disturb /selftests/bound kernel 2000
	/selftests/disturb /selftests/bound --busy $each $checks
	rmmod fastclk && insmod /fastclk.ko; /selftests/disturb /selftests/bound $((each / 5)) 1000
" -s 2 --fault-injection -A 'tsc=unstable' -m 'assume_invariant=1' -t $((20 * each + 100))

in_guest 'whose clocksource changes' "
	/selftests/disturb /selftests/bound --switch 100 $switching 100000
" -s 2 -m 'assume_invariant=1' -t $((10 * switching))
tap_end

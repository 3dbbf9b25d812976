#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The verdict can be believed: counters that agree are found synced in each of many loads, idle or busy, and
# a counter that is off is found and named in each, whether offsets are allowed or not. SOAK=1 makes ten times
# as many, and takes its time; otherwise there are fewer where the host is busy.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

if [[ -n ${SOAK:-} ]]; then
	many=1000 some=100 few=20 long='' short=''
else
	many=100 some=3 few=1 long=30 short=4
fi

in_guest 'with four CPUs' "
	/selftests/gaps ${SOAK:+6}1 /fastclk.ko
	/selftests/verdict_loads synced $many /fastclk.ko $long
" -s 4 -t 14000
in_guest 'with four CPUs, one of them wrong' "
	/selftests/verdict_loads unsynced $some /fastclk.ko $short
	/selftests/verdict_loads offset $few /fastclk.ko $short
" -s 4 -t 14000 --fault-injection
in_guest 'with two CPUs, one of them wrong' "
	/selftests/verdict_loads unsynced $some /fastclk.ko $short
" -s 2 -t 14000 --fault-injection
tap_end

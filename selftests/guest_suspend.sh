#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The machine sleeps and wakes up: twice, and with SOAK=1 ten times.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

in_guest 'that suspends' "
	/selftests/suspend ${SOAK:+10}
" -t 600 --fault-injection
in_guest 'that sleeps' "
	/selftests/suspend ${SOAK:+10}
" -s 1 --suspend -t 600 --fault-injection
tap_end

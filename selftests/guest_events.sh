#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Whoever wants to know of events is told: selftests/event_*, in guests that have the clocksources tsc and
# hpet. What each program protects is said in its source.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

in_guest 'with two CPUs' "
	/selftests/event_clocksource
" -t 1500
in_guest 'with a test build' '
	/selftests/event_verdict
' -t 600 --fault-injection
tap_end

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The verdict stays true while CPUs come and go and counters begin to drift. SOAK=1 takes each of the CPUs
# off and on ten times as often.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

in_guest 'with CPUs that come and go' "
	/selftests/hotplug ${SOAK:+100}
	/selftests/drift
" -s 4 -t 4000 --fault-injection
in_guest 'that starts with one CPU' '
	/selftests/hotplug_bringup
' -s 4 -A maxcpus=1 -t 600 --fault-injection
tap_end

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The device, its files in sysfs, and the life of the module, in guests in which the kernel's clocksource
# is the TSC. What each program protects is said in its source.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

# Far more than they take, even on a busy host: what hangs is ended by the programs themselves.
patience=(-t 1200)

in_guest 'with two CPUs' '
	/selftests/device_mmap
	/selftests/device_read
	/selftests/device_attributes
	/selftests/device_parameters
	/selftests/device_lifetime
	/selftests/device_revoke
' "${patience[@]}"
in_guest 'with a test build' '
	/selftests/device_poll
' "${patience[@]}" --fault-injection -m offsets=0
in_guest 'with one CPU' '
	/selftests/device_single
' "${patience[@]}" -s 1
tap_end

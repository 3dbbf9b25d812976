#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Lockstep is exact: in a guest whose clock is slewed, ticked and set all the time, the page
# gives the nanoseconds of the timekeeper, inside the kernel (core/identity.c) and for user
# space (selftests/bracket.c). A stage of selftests/check.

set -euo pipefail
cd "$(dirname "$0")/.."

factor=$([[ ${SOAK:-} ]] && echo 10 || echo 1)
want=$((10000000 * factor))

# Both CPUs compare, 2 s at a time, until there were enough comparisons.
kernel='
cd /sys/kernel/debug/fastclk || exit 1
for try in $(seq 100); do
	echo 2000 > identity & echo 2000 > identity; wait
	set -- $(cat identity)
	[ $(($2 + $4)) -lt '$want' ] && [ "$6" = 0 ] || break
done
echo "# in the kernel: $2 equal, $4 equal to the line published next, $6 different"
[ $(($2 + $4)) -ge '$want' ] || { echo "# wanted '$want'"; exit 1; }
[ "$6" = 0 ]'

status=0
vm/run --fault-injection -s 2 -t $((300 * factor)) -- sh -c "
	/selftests/disturb /selftests/bracket $want | sed 's/^1\.\.5/1..6/'
	if /selftests/disturb sh -c '$kernel'; then
		echo 'ok 6 - identity in the kernel'
	else
		echo 'not ok 6 - identity in the kernel'
	fi" || status=$?
((status < 120)) || echo "not ok 7 - the guest ended with status $status"

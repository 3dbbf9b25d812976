#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Time never goes back across CPUs while the kernel's clock is slewed: selftests/monotonic in
# a guest of four CPUs. A stage of selftests/check.

set -euo pipefail
cd "$(dirname "$0")/.."

factor=$([[ ${SOAK:-} ]] && echo 10 || echo 1)
status=0
vm/run -s 4 -t $((300 * factor)) -- \
	/selftests/disturb --slew /selftests/monotonic $((2000000 * factor)) || status=$?
((status < 120)) || echo "not ok 2 - the guest ended with status $status"

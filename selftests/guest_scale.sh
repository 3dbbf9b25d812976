#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# From 2 to 32 CPUs, idle and busy: loading takes its budget at most, never finds a fault where there is
# none, and does not lock the machine up. SOAK=1 loads ten times.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

times=${SOAK:+0}
module=$("$top/vm/build-module") || exit
log=$(mktemp)
trap 'rm -f "$tap_status" "$log"' EXIT
# Not /fastclk.ko, which the guest would load by itself.
options=(-t 1200 --no-load --add "$module:/module.ko" --log "$log")

# What a guest suffers from when its CPUs do not get to run, and what it does not.
stalls='soft lockup|hard LOCKUP|self-detected stall|detected stalls|expedited stalls|kthread starved'
stalls+='|blocked for more than'
bugs='WARNING:|Oops|kernel BUG|refcount_t:'

# Is it the host? Then as many busy CPUs stall without the module, too.
excuse() {
	local after_boot

	after_boot=$(sed -n '/fastclk-vm: before module/,$p' "$log")
	if grep -qE "$stalls" <<< "$after_boot" && ! grep -qE "$bugs" <<< "$after_boot"; then
		"$top/vm/run" -s "$cpus" -t 300 --no-load -- /selftests/verdict_loads busy 40 > /dev/null
		(($? != 125)) || echo "such a guest stalls without the module, too"
	fi
}

for cpus in 2 4 8 16 32; do
	in_guest "with $cpus CPUs" "/selftests/verdict_loads scale 1$times /module.ko" -s "$cpus" \
		"${options[@]}"
done
tap_end

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

# All that a guest can suffer from when its CPUs do not get to run.
stalls='soft lockup|hard LOCKUP|self-detected stall|detected stalls|expedited stalls|kthread starved'
stalls+='|blocked for more than'

for cpus in 2 4 8 16 32; do
	failed=$tap_failed
	in_guest "with $cpus CPUs" "/selftests/verdict_loads scale 1$times /module.ko" -s "$cpus" \
		"${options[@]}"
	if ((guest_status != 125)) || ! grep -qE "$stalls" "$log" ||
		grep -qE 'WARNING:|Oops|kernel BUG|refcount_t:' "$log"; then
		continue
	fi
	# Is it the host? Then the same load without the module brings it about, too.
	echo "# $cpus CPUs: a lockup or stall; the same again without the module"
	in_guest "with $cpus CPUs without the module" '' -s "$cpus" "${options[@]}"
done
tap_end

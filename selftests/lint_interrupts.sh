#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Loading and re-checking keep interrupts on: nothing that turns interrupts or preemption off, or stops
# other CPUs, is used outside of the few places that are listed here, each of which is short.

set -euo pipefail
cd "$(dirname "$0")/.."

# File, how often, and what for.
allowed='
core/events.c 1 notes what was traced last
core/identity.c 1 test build: two reads of the counter and one of the clock
core/page.c 10 writes the page, and copies what the sampler has to do
core/sampler.c 1 two reads of the counter and one of the clock
core/timekeeper.c 1 copies a name
'
pattern='irq_save|irqsave|irq_disable|_lock_irq\b|preempt_disable|get_cpu\(|stop_machine|smp_call_function|on_each_cpu'

echo 1..1
ok=yes
while read -r file count; do
	limit=$(awk -v file="$file" '$1 == file { print $2 }' <<< "$allowed")
	if ((count > ${limit:-0})); then
		echo "# $file does this $count times, ${limit:-0} are allowed:"
		grep -nE "$pattern" "$file" | sed 's/^/# /'
		ok=
	fi
done < <(grep -cE "$pattern" fastclk.c core/*.[ch] arch/*/*.[ch] | grep -v ':0$' | tr : ' ')
[[ $ok ]] || printf "not "
echo "ok 1 - interrupts are off in known places only"

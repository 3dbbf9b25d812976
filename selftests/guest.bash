# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# How the stages guest_*.sh turn what programs in guests print into one TAP stream: read by them, as
# bash. They call in_guest any number of times, and tap_end at the end.

set -uo pipefail

selftests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$selftests")
tap_count=0
tap_failed=0

# tap_point ok|'not ok' NAME [SKIP-REASON]
tap_point() {
	tap_count=$((tap_count + 1))
	[[ $1 == ok || -n ${3:-} ]] || tap_failed=$((tap_failed + 1))
	echo "$1 $tap_count - $2${3:+ # SKIP $3}"
}

# Takes TAP of any number of programs, each between "# begin NAME" and "# end NAME STATUS", from stdin.
# Numbers the tests anew and puts NAME before theirs. A program must keep to its plan and end with 0,
# or with anything else if it has said why.
tap_programs() {
	local line program='' planned=0 ran=0 wrong=0 result name skip
	local test='^(ok|not ok)( [0-9]+)?( -)? *(.*)$' skipped='^# SKIP *(.*)$'

	while IFS= read -r line; do
		line=${line%$'\r'}
		if [[ $line =~ ^1\.\.([0-9]+)$ ]]; then
			planned=${BASH_REMATCH[1]}
		elif [[ $line == "# begin "* ]]; then
			program=${line#\# begin } planned=none ran=0 wrong=0
		elif [[ $line == "# end "* ]]; then
			read -r _ _ _ status <<< "$line"
			if [[ $ran != "$planned" ]]; then
				tap_point 'not ok' "$program ran $ran tests of $planned and ended with $status"
			elif ((status && !wrong)); then
				tap_point 'not ok' "$program ended with $status"
			fi
			program=
		elif [[ $line =~ $test ]]; then
			result=${BASH_REMATCH[1]} name=${BASH_REMATCH[4]} skip=
			ran=$((ran + 1))
			# cmocka says "not ok 3 # SKIP name".
			if [[ $name =~ $skipped ]]; then
				name=${BASH_REMATCH[1]} skip='see above' result=ok
			elif [[ $name == *" # SKIP "* ]]; then
				skip=${name#* \# SKIP } name=${name%% \# SKIP *}
			fi
			[[ $result == ok ]] || wrong=1
			tap_point "$result" "$program: ${name//_/ }" "$skip"
		elif [[ $line == TAP\ version* ]]; then
			:
		else
			echo "# ${line#\# }"
		fi
	done
	[[ -z $program ]] || tap_point 'not ok' "$program did not end (after $ran tests of $planned)"
}

# in_guest NAME COMMANDS [VM-RUN-OPTION]...: boots a guest and runs COMMANDS there, each a program with
# arguments that prints TAP. Commands are separated by newlines. If the kernel in the guest reported a bug
# and there is a function "excuse", then what that prints is a reason to skip, if it is a reason.
in_guest() {
	local name=$1 commands=$2 script='' command program status reason=''
	shift 2

	while read -r command; do
		[[ -n $command ]] || continue
		# /selftests/disturb /selftests/bound ... is bound.
		program=${command##*/selftests/}
		program=${program%% *}
		script+="echo '# begin ${program##*/}'; $command; echo '# end ${program##*/}' \$?; "
	done <<< "$commands"
	# In this shell, which counts.
	tap_programs < <("$top/vm/run" "$@" -- sh -c "$script"; echo "# guest $?" > "$tap_status")
	read -r _ _ status < "$tap_status"
	[[ $status != 125 ]] || ! declare -F excuse > /dev/null || reason=$(excuse)
	if [[ -n $reason ]]; then
		tap_point ok "guest $name: vm/run ended with $status" "$reason"
	elif [[ $status != 0 ]]; then
		tap_point 'not ok' "guest $name: vm/run ended with $status"
	fi
}

tap_end() {
	echo "1..$tap_count"
	exit $((tap_failed > 0))
}

tap_status=$(mktemp)
trap 'rm -f "$tap_status"' EXIT

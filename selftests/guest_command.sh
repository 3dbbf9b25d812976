#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The command fastclk in guests: what it says of a clock that can be used, and of all that can be
# wrong with one. Its words may change; that they name the cause may not.
#
# shellcheck disable=SC2016 # the guest or perl expands it

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

said=$(mktemp -d)
trap 'rm -rf "$said" "$tap_status"' EXIT

# What scripts in guests begin with. "run NAME COMMAND..." keeps what a command says and how it
# ends; "settle" waits until the CPUs were compared, which on a busy host may take several attempts.
prologue='
run() {
	name=$1
	shift
	echo "@begin $name"
	"$@" 2>&1
	printf "\n@end %s %s\n" "$name" "$?"
}
settle() {
	for second in $(seq 30); do
		[ "$(cat /sys/class/misc/fastclk/verdict)" = unknown ] || return 0
		sleep 1
		echo 1 > /sys/class/misc/fastclk/recheck
	done 2> /dev/null
}
'

# guest NAME SCRIPT [VM-RUN-OPTION]...: leaves what run() kept in $said/NAME, and the exit status in
# $said/NAME.status.
guest() {
	local guest=$1 script=$2 line name='' status
	shift 2

	while IFS= read -r line; do
		line=${line%$'\r'}
		case $line in
		"@begin "*) name=${line#@begin } && : > "$said/$name" ;;
		"@end "*) [[ -z $name ]] || echo "${line##* }" > "$said/$name.status"
			name= ;;
		*) if [[ -n $name ]]; then
				echo "$line" >> "$said/$name"
			else
				echo "# $line"
			fi ;;
		esac
	done < <("$top/vm/run" "$@" -- sh -c "$prologue$script"
		printf '@begin guest\n@end guest %s\n' $?)
	status=$(cat "$said/guest.status")
	[[ $status == 0 ]] || tap_point 'not ok' "guest $guest: vm/run ended with $status"
}

# expect NAME STATUS PATTERN... -- DESCRIPTION: did it end like that, and say all of that?
expect() {
	local name=$1 status=$2 found pattern description=${*: -1} result=ok
	shift 2

	found=$(cat "$said/$name.status" 2> /dev/null)
	if [[ $found != "$status" ]]; then
		result='not ok'
		echo "# exit status is ${found:-missing}, not $status"
	fi
	while [[ $1 != -- ]]; do
		pattern=$1
		# Where a line is broken does not matter.
		if ! tr -s '\n ' ' ' < "$said/$name" | grep -qE -e "$pattern"; then
			result='not ok'
			echo "# nothing in it is like '$pattern'"
		fi
		shift
	done
	tap_point "$result" "$description"
	[[ $result == ok ]] || sed 's/^/#   /' "$said/$name" 2> /dev/null
}

# expect_json NAME EXPRESSION DESCRIPTION: is it JSON, and is the perl expression of $j true?
expect_json() {
	local result=ok

	perl -MJSON::PP -e 'local $/; my $j = decode_json(<STDIN>); exit !eval($ARGV[0])' "$2" \
		< "$said/$1" || result='not ok'
	tap_point "$result" "$3"
	[[ $result == ok ]] || sed 's/^/#   /' "$said/$1"
}

# expect_between NAME LOW HIGH DESCRIPTION: is the number in it between those in the two others?
expect_between() {
	local result=ok

	perl -e 'my ($x, $low, $high) = map { local (@ARGV, $/) = ($_); <> =~ /^(\d+)/m; $1 } @ARGV;
		exit !($low <= $x && $x <= $high)' "$said/$1" "$said/$2" "$said/$3" || result='not ok'
	tap_point "$result" "$4"
	[[ $result == ok ]] || tail -n +1 "$said/$1" "$said/$2" "$said/$3" | sed 's/^/#   /'
}

unshare=$(command -v unshare)
setpriv=$(command -v setpriv)

# --- a clock that can be used, and what keeps a process from using it

guest usable '
settle
# In ns, with the last digits lowest or highest.
uptime_low() { sed "s/\([0-9]*\)\.\([0-9]*\) .*/\1\20000000/" /proc/uptime; }
uptime_high() { sed "s/\([0-9]*\)\.\([0-9]*\) .*/\1\29999999/" /proc/uptime; }
run status fastclk status
run json fastclk status --json
run low uptime_low
run now fastclk now
run boottime fastclk now --clock boottime --relaxed
run raw fastclk now --clock raw
run high uptime_high
run date_low date +%s000000000
run realtime fastclk now --clock=realtime
run date_high date +%s999999999
run tai fastclk now -c tai
run bench fastclk bench
run bench_json fastclk bench --json
run version fastclk --version
run help fastclk --help

run no_command fastclk
run bad_command fastclk tell
run bad_option fastclk status --verbose
run bad_clock fastclk now --clock sundial
run bad_word fastclk bench now
run full sh -c "fastclk status > /dev/full"
run closed sh -c "fastclk now >&-"

run notsc_status /selftests/notsc status
run notsc_now /selftests/notsc now
run notsc_bench /selftests/notsc bench
run timens unshare -T -f --monotonic 1000 fastclk status
run timens_now unshare -T -f --monotonic 1000 fastclk now

cp /dev/null /tmp/empty
run not_a_page fastclk status --page /tmp/empty
dd if=/dev/zero of=/tmp/zeroes bs=4096 count=1 2> /dev/null
run zeroes fastclk status --page /tmp/zeroes
chmod 0 /dev/fastclk
run unreadable setpriv --reuid 1000 --regid 1000 --clear-groups fastclk status
run unreadable_now setpriv --reuid 1000 --regid 1000 --clear-groups fastclk now
chmod 444 /dev/fastclk
echo 1 > /sys/class/misc/fastclk/revoke
run revoked fastclk status
rmmod fastclk
run unloaded fastclk status
run unloaded_json fastclk status --json
run unloaded_now fastclk now --clock realtime
' --add "$unshare" --add "$setpriv" -t 180

expect status 0 '^usable +yes' \
	'verdict +synced: .* 2 tested CPUs .* at most [0-9]+ cycles \([0-9]+ ns\)' 'mode +lockstep' \
	'counter +tsc at [0-9.]+ MHz' 'clocksource +tsc ' 'tested +2 CPUs, 1 of 1 pairs' \
	'skew +at most [0-9]+ cycles' 'warp +none' 'bad CPUs +none' 'line +ns = \(cycles \* [0-9]+ ' \
	'window +0\.[0-9]+ s old, valid for another [0-9.]+ s' 'generation +[1-9]' 'updates +[1-9]' \
	'rate +constant enough' 'trust +the kernel trusts' 'ABI 1\.1' -- 'status says that the clock can be used, and gives all figures'
expect_json json '$j->{usable} eq "1" && $j->{source} == 0 && $j->{verdict} eq "synced" &&
	$j->{mode} eq "lockstep" && $j->{reason} eq "usable" && $j->{kernel_clocksource} eq "tsc" &&
	$j->{bad_cpus} eq "" && $j->{max_skew_ns} > 0 && $j->{max_warp_ns} == 0 &&
	$j->{line_age_ns} > 0 && $j->{line_left_ns} > 0 && $j->{capabilities}{comparable} &&
	!$j->{capabilities}{test_build}' 'status --json is JSON, and says the same'
expect_json json 'my $p = $j->{page}; $p->{header}{magic} == 0x314b4c4354534146 &&
	$p->{header}{abi_major} == 1 && $p->{hot}{shift} == 64 && $p->{hot}{mult} > 2**53 &&
	$p->{hot}{seq} % 2 == 0 && $p->{clocks}{frequency_hz} > 1e8 && $p->{clocks}{updates} > 0 &&
	$p->{verdict}{cpus} == 2 && $p->{verdict}{pairs} == 1 && $p->{verdict}{exchanges} >= 64 &&
	$p->{verdict}{max_skew_cycles} > 0' 'status --json has the fields of the page'
expect now 0 '^[0-9]+ $' -- 'now prints a number'
expect_between now low high 'now is the time since boot'
expect_between boottime low high 'now --clock boottime --relaxed is, too'
expect raw 0 '^[0-9]+ $' -- 'now --clock raw prints a number'
expect_between realtime date_low date_high 'now --clock realtime is the date'
expect tai 0 '^[0-9]+ $' -- 'now -c tai prints a number'
expect bench 0 '^source: the page /dev/fastclk' 'fastclk_now_ns_relaxed +[0-9.]+ x rdtsc' \
	'fastclk_now_ns +[0-9.]+ x lfence; rdtsc' 'fastclk_now_ns +[0-9.]+ x clock_gettime' \
	'fastclk_now_ns_relaxed +[0-9.]+ x clock_gettime' 'open and first read: [0-9.]+ us' \
	-- 'bench names its source, and prints costs and ratios'
expect_json bench_json '$j->{usable} && $j->{source} eq "page" && !$j->{loop_subtracted} &&
	$j->{rounds} >= 5 && 4 == grep({ $_ > 0 && $_ < 100 } values %{$j->{ratios}}) &&
	6 == grep({ $_ > 0 } values %{$j->{ns_per_call}})' 'bench --json is JSON with costs and ratios'
expect version 0 '^fastclk [0-9]+\.' -- '--version prints it'
expect help 0 'status .* now .* bench' -- '--help names the commands'

expect no_command 2 'a command is missing' -- 'no command is wrong usage'
expect bad_command 2 "'tell'.*status, now or bench" -- 'an unknown command is named, and the known ones'
expect bad_option 2 '--verbose' '--help' -- 'an unknown option is named, and where to look'
expect bad_clock 2 "'sundial'.*monotonic, realtime" -- 'an unknown clock is named, and the known ones'
expect bad_word 2 "'now'" -- 'a word too much is named'
expect full 4 'No space left' -- 'a full disk is reported'
expect closed 4 'Bad file descriptor' -- 'a closed standard output is reported'

expect notsc_status 1 'usable +no' 'prctl PR_SET_TSC' 'verdict +synced' \
	-- 'status works and says why where the counter must not be read'
expect notsc_now 1 '[0-9]{6,} ' 'prctl PR_SET_TSC' -- 'now works and says why there, too'
expect notsc_bench 1 'prctl PR_SET_TSC' -- 'bench says there why it measures nothing'
expect timens 1 'usable +no' 'time namespace \(monotonic \+1000\.0+ s\)' 'verdict +synced' \
	-- 'in a time namespace, status says that the page is not about this process'
expect timens_now 1 '[0-9]+ ' 'time namespace' -- 'in a time namespace, now says so, too'
expect not_a_page 1 'usable +no' -- 'an empty file is not taken for a page'
expect zeroes 1 'usable +no' 'unknown kind or version' -- 'a page of zeroes is not used'
expect unreadable 1 'Permission denied' 'mode is 0000' 'chmod' \
	-- 'a device without permission is not usable, and its mode is shown'
expect unreadable_now 1 '[0-9]+ ' 'Permission denied' -- 'now falls back there, and says so'
expect revoked 1 'revoked' 'modprobe' -- 'a revoked device is not usable'
expect unloaded 3 'there is no /dev/fastclk' 'modprobe fastclk' -- 'without a module there is no device'
expect_json unloaded_json '!$j->{usable} && exists $j->{page} && !defined $j->{page} &&
	!defined $j->{verdict}' 'without a module, what is not known is null'
expect unloaded_now 3 '^[0-9]{19} ' 'there is no /dev/fastclk' -- 'without a module, now falls back'

# --- another clocksource

guest hpet '
settle
run hpet fastclk status
run hpet_now fastclk now
run hpet_bench fastclk bench
run hpet_json fastclk status --json
rmmod fastclk
insmod /fastclk.ko assume_invariant=1
settle
run assumed fastclk status
run assumed_now fastclk now
run assumed_json fastclk status --json
' -A clocksource=hpet -t 180

expect hpet 1 'usable +no' "clocksource is hpet" 'echo tsc >' 'assume_invariant=1' 'FASTCLK_VARIABLE_RATE' \
	'mode +variable: .* within [0-9]+ ns of ' 'rate +may change' 'trust +the kernel trusts' \
	-- 'with clocksource=hpet, status names the clocksource, the rate that may change, and what to do'
expect hpet_now 1 '[0-9]+ ' 'rate may change' -- 'with a variable rate, now falls back'
expect hpet_bench 1 'source: clock_gettime\(\), since .* rate may change' \
	-- 'with a variable rate, bench says first that it measures falling back'
expect_json hpet_json '!$j->{usable} && $j->{source} == 11 && $j->{reason} eq "usable" &&
	$j->{mode} eq "variable" && !$j->{invariant} && !$j->{assumed_invariant} && $j->{kernel_trusts} &&
	!$j->{capabilities}{constant_rate} && $j->{page}{verdict}{error_ns} > 0' \
	'with a variable rate, status --json says so'
expect assumed 0 'usable +yes' 'mode +disciplined: .* within [0-9]+ ns of ' 'clocksource +hpet' \
	'rate +assumed by the administrator .*assume_invariant' 'trust +the kernel trusts' \
	-- 'that the rate was assumed to be constant is shown, and the clock can be used'
expect assumed_now 0 '^[0-9]+ $' -- 'now reads the page then'
expect_json assumed_json '$j->{usable} && $j->{mode} eq "disciplined" && !$j->{invariant} &&
	$j->{assumed_invariant} && $j->{capabilities}{constant_rate} && !$j->{capabilities}{lockstep}' \
	'and status --json says so'

# --- a test build, with CPUs that disagree

guest unsynced '
run test_build fastclk status
echo 1:50000000 > /sys/module/fastclk/parameters/fault
sleep 1.1
echo 1 > /sys/class/misc/fastclk/recheck
sleep 1
settle
run unsynced fastclk status
run unsynced_json fastclk status --json
' -s 4 --fault-injection -m offsets=0 -t 180

expect test_build 1 'usable +no' 'test build' 'FAULT_INJECTION' -- 'a test build is not used'
expect unsynced 1 'usable +no' 'test build' 'besides .*disagree' 'bad CPUs +1: ' \
	'verdict +unsynced: .* differ by at least [0-9]+ cycles' 'without CPU 1 ' \
	-- 'CPUs that disagree are named, with by how much'
expect_json unsynced_json '$j->{verdict} eq "unsynced" && $j->{bad_cpus} eq "1" &&
	$j->{max_warp_ns} > 10_000_000 && $j->{capabilities}{test_build}' \
	'status --json names them, too'

tap_end

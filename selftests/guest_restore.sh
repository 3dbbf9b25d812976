#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What happens to virtual machines: they are stopped for some seconds (a minute with SOAK=1) and go on; they are
# saved, and another QEMU goes on from there, and says by another vmgenid that it did, or does not tell.

# shellcheck source=selftests/guest.bash
. "$(dirname "$0")/guest.bash"

work=$(mktemp -d "${TMPDIR:-/tmp}/fastclk-restore.XXXXXX")
"$selftests/host" "$work" &
host=$!
# shellcheck disable=SC2064 # they are known now
trap "kill $host; rm -rf '$work' '$tap_status'" EXIT

stop_s=${SOAK:+60}
stop_s=${stop_s:-3}
hpet=(-A clocksource=hpet -m 'assume_invariant=1')
words="-qmp unix:$work/monitor,server=on,wait=off -device pci-serial,chardev=requests"
words+=" -chardev socket,id=requests,path=$work/requests,server=on,wait=off"
words+=" -drive if=none,file=$work/disk,format=qcow2"
again="$words -loadvm state"
before="-device vmgenid,guid=6b1f0c4e-5a0f-4d7b-9a54-0f3a1d5c7e01"
after="-device vmgenid,guid=c2d7a9b3-18e6-4f50-8b1d-7e9f2a4b6c02"

# in_saved_guest NAME COMMANDS [VM-RUN-OPTION]...
in_saved_guest() {
	rm -f "$work/disk"
	qemu-img create -q -f qcow2 "$work/disk" 1M || exit
	in_guest "$@" -m recheck_seconds=0 -t $((stop_s + 150))
}

in_saved_guest 'that is restored' "
	/selftests/restore stop $stop_s
	/selftests/restore restore
" --qemu "$words $before" --qemu "$again $after"
in_saved_guest 'that is restored, and has hpet' "
	/selftests/restore stop $stop_s
	/selftests/restore restore
" --qemu "$words $before" --qemu "$again $after" "${hpet[@]}"
in_saved_guest 'that is restored to other counters' '
	/selftests/restore fault
' --qemu "$words $before" --qemu "$again $after" --fault-injection -m offsets=0
in_saved_guest 'whose counter jumps' "
	/selftests/restore jump 2
	/selftests/restore jump -2
" --qemu "$words" --qemu "$again" --qemu "$again" "${hpet[@]}"
tap_end

# What Linux does in a turn of `cargo xtask kernel ubifs-turns`. The lines before this file set up
# the flash and say: `how` UBI is attached, `turn` the name of the turn, `seed`, `mib` how much is
# written.

# UBIFS's own checks of orphans, properties and files, which take long while much is written. That
# of the index remembers the root of the last commit: it is never off.
checks() {
    for name in orphans lprops fs; do echo $1 >/sys/kernel/debug/ubifs/chk_$name; done
}

probes() {
    echo 'p:collected ubifs_garbage_collect_leb' >/sys/kernel/tracing/kprobe_events
    echo 'p:committed ubifs_log_start_commit' >>/sys/kernel/tracing/kprobe_events
    echo 1 >/sys/kernel/tracing/events/kprobes/enable
}

# Mounts what nandkit left, lists it, writes until LEBs are collected, and lists it again.
take_turn() {
    # What is written reaches the flash before it is removed again.
    echo 10 >/proc/sys/vm/dirty_writeback_centisecs
    echo 1 >/proc/sys/vm/dirty_expire_centisecs
    ubiattach $how -p /dev/mtd0 >/dev/null
    for name in general index; do echo 1 >/sys/kernel/debug/ubifs/chk_$name; done
    checks 1
    mount -t ubifs ubi0:files /mnt
    helper manifest /mnt >$turn.found
    checks 0
    probes
    [ $mib -eq 0 ] || helper churn /mnt $seed 90 $mib >/dev/null
    checks 1
    sync
    cat /sys/kernel/tracing/kprobe_profile >$turn.counts
    helper manifest /mnt >$turn.left
    umount /mnt
    ubidetach -p /dev/mtd0
}

# What Linux does on one flash for `cargo xtask kernel ubifs`. The lines before this file set up the
# flash and say: `compr` the compressor, `mib` how much each churn writes, `writes` how many cuts
# there are between writes, `percent` how full the volume is kept. Snapshots gather in /run/NAME;
# what they must hold in NAME.tree, as Linux sees it while the volume is mounted.

step() { read -r up rest </proc/uptime; echo "$up s: $*"; }

# A real-time process on the only processor: nothing else runs until the dump is done, so that it is
# what a power cut would leave.
snapshot() {
    chrt -f 50 nanddump --quiet --bb=dumpbad --noecc --oob --file=/run/$1 /dev/mtd0
    echo $1 >>snapshots
    step snapshot $1
}

attach() {
    ubiattach -b 5 -p /dev/mtd0 >/dev/null
}

mount_volume() {
    mount -t ubifs -o compr=$compr ubi0:files /mnt
}

unmount() {
    cd /
    umount /mnt
    ubidetach -p /dev/mtd0
    cd $place
}

# Dirty pages and write buffers reach the flash within tenths of a second, without a commit.
settle() {
    sleep 2
}

# A tree that only this file changes.
make() {
    mkdir $1 $1/many $1/same $1/deep $1/attributes
    cd $1
    # 'al' and 'ba' add the same to the hash R5, so that these names have one key.
    for a in al ba; do for b in al ba; do for c in al ba; do for d in al ba; do echo $a$b$c$d >same/$a$b$c$d; done; done; done; done
    number=0
    while [ $number -lt 1200 ]; do echo $number >many/file$number; number=$((number + 1)); done
    head -c 2000000 /dev/urandom >large
    seq 1 150000 >text
    for name in short longer holes regrown overwritten linked; do seq 1 9000 >$name; done
    ln linked linked2
    mkdir -p deep/a/b/c/d/e/f
    for name in a a/b a/b/c a/b/c/d/e/f; do seq 1 100 >deep/$name/file; done
    for name in kept changed removed many; do
        echo $name >attributes/$name
        for kind in user security trusted; do setfattr -n $kind.first -v "$name of $kind" attributes/$name; done
    done
    number=0
    while [ $number -lt 40 ]; do setfattr -n user.number$number -v $number attributes/many; number=$((number + 1)); done
    setfattr -n user.large -v "$(seq 1 900)" attributes/kept
    setfattr -n user.directory -v yes attributes
    ln -s text link
    mknod pipe p
    mknod null c 1 3
    mknod block b 259 70000
    cd $place
}

# Changes to that tree which the journal holds until the next commit.
change() {
    cd $1
    rm same/alalalal same/bababaal
    mv same/alalalba same/moved
    mv same/babababa same/alalbaal
    echo again >same/alalalal
    echo other >same/babaalba
    ln same/albaalal same/alalalba
    number=0
    while [ $number -lt 300 ]; do rm many/file$number; number=$((number + 4)); done
    number=1
    while [ $number -lt 300 ]; do mv many/file$number many/other$number; number=$((number + 8)); done
    truncate -s 1000 short
    truncate -s 900000 longer
    truncate -s 100 regrown
    echo behind | dd of=regrown seek=70000 bs=1 conv=notrunc 2>/dev/null
    echo in the middle | dd of=overwritten seek=9000 bs=1 conv=notrunc 2>/dev/null
    head -c 50000 /dev/urandom | dd of=large seek=100 bs=4096 conv=notrunc 2>/dev/null
    rm holes
    echo far | dd of=holes seek=7000000 bs=1 2>/dev/null
    rm linked
    ln text text2
    mv deep/a/b/c deep/c
    rm -r deep/a
    mkdir -p deep/a/new
    setfattr -n user.first -v "a longer value than before" attributes/changed
    setfattr -n user.second -v "" attributes/changed
    setfattr -x trusted.first attributes/changed
    rm attributes/removed
    number=0
    while [ $number -lt 40 ]; do setfattr -x user.number$number attributes/many; number=$((number + 3)); done
    setfattr -x user.directory attributes
    ln -s "$(seq 1 500 | tr '\n' /)" long-link
    rm link pipe
    mv -f null pipe
    chmod 7751 short
    chown 70000:12 longer text
    touch -d "2001-02-03 04:05:06" text deep
    cd $place
}

# Files without names, some of which were removed before the last commit and some after it.
orphans() {
    seq 1 5000 >/mnt/open1; seq 1 5000 >/mnt/open2; seq 1 5000 >/mnt/open3
    for name in open1 open2; do setfattr -n user.open -v $name /mnt/$name; done
    exec 4<>/mnt/open1 5<>/mnt/open2 6<>/mnt/open3
    rm /mnt/open1
    sync
    echo more >&4
    rm /mnt/open2 /mnt/open3
    echo more >&5
    settle
}

# Cuts between writes, the first half of them with commits beside them: the tree made above does not
# change.
cuts() {
    helper churn /mnt $seed $percent 4000 >/dev/null & churner=$!
    while :; do sync; usleep 30000; done & syncer=$!
    number=0
    while [ $number -lt $writes ]; do
        [ $((2 * number)) -ne $writes ] || kill $syncer
        usleep $((300000 + 170000 * number % 510000))
        snapshot writes$number
        number=$((number + 1))
    done
    kill $churner
    wait $churner $syncer || true
}

# A cut as UBIFS emulates it for its own tests, which leaves half-written pages; it says so with the
# traces of calls.
emulated() {
    echo 1 >/sys/kernel/debug/ubifs/ubi0_0/tst_recovery
    helper churn /mnt $((seed + 1)) $percent $((6 * mib)) >/dev/null 2>&1 & churner=$!
    while :; do sync; usleep 100000; done 2>/dev/null & syncer=$!
    wait $churner || true
    kill $syncer
    wait $syncer || true
    snapshot emulated
    umount /mnt || true
    ubidetach -p /dev/mtd0
    dmesg -c | grep -E 'Power cut|UBIFS' >emulated.log || true
}

# What the volume is after Linux's recovery.
recover() {
    flash_erase --quiet /dev/mtd0 0 0
    nandwrite --quiet --noecc --oob /dev/mtd0 /run/$1
    attach
    mount_volume
    helper manifest /mnt >$1.linux
    unmount
}

all() {
    echo -1 >/proc/sys/kernel/sched_rt_runtime_us
    echo 10 >/proc/sys/vm/dirty_writeback_centisecs
    echo 1 >/proc/sys/vm/dirty_expire_centisecs
    ubiformat -q -y /dev/mtd0
    attach
    ubimkvol /dev/ubi0 -N files -m >/dev/null
    mount_volume
    echo 'p:collected ubifs_garbage_collect_leb' >/sys/kernel/tracing/kprobe_events
    echo 'p:committed ubifs_log_start_commit' >>/sys/kernel/tracing/kprobe_events
    echo 1 >/sys/kernel/tracing/events/kprobes/enable
    helper tree /mnt $seed 1
    make /mnt/made
    step made
    sync
    snapshot committed
    helper manifest /mnt >committed.tree
    change /mnt/made
    helper churn /mnt $seed $percent 1 >/dev/null
    rm /mnt/made/many/file1199
    settle
    snapshot journal
    helper manifest /mnt >journal.tree
    orphans
    snapshot orphans
    helper manifest /mnt >orphans.tree
    exec 4>&- 5>&- 6>&-
    sync
    cuts
    helper churn /mnt $((seed + 2)) $percent $mib
    step churned
    cat /sys/kernel/tracing/kprobe_profile >counts
    echo 0 >/sys/kernel/tracing/events/kprobes/enable
    echo >/sys/kernel/tracing/kprobe_events
    helper manifest /mnt/made >made.tree
    unmount
    snapshot clean
    attach
    mount_volume
    helper manifest /mnt >clean.tree
    emulated
    step emulated
    for name in $(cat snapshots); do recover $name; done
    recover orphans
    snapshot recovered
    cp orphans.linux recovered.linux
    step recovered
    for name in $(cat snapshots); do cp /run/$name $name; rm /run/$name; done
    step done
}

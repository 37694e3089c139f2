# What Linux does with volumes that nandkit wrote for `cargo xtask kernel ubifs-recover`. The lines
# before this file set up the flash and say: `lebs` LEBs of a volume, `offset` of volume identifiers.

# UBIFS's own checks of orphans, properties and files, which take long while much is written. That of
# the index remembers the root of the last commit: it is never off.
checks() {
    for name in orphans lprops fs; do echo $1 >/sys/kernel/debug/ubifs/chk_$name; done
}

# Writes several times what a volume of 44 small LEBs holds; `churn` would never find room there.
rewrite() {
    number=0
    while [ $number -lt 40 ]; do
        file=/mnt/new$((number % 3))
        head -c 50000 /dev/urandom >$file 2>/dev/null || rm -f $file
        sync
        number=$((number + 1))
    done
}

# Mounts a volume, lists it, writes until LEBs are collected, and lists it again.
judge() {
    ubiupdatevol /dev/ubi0_0 $1
    checks 1
    mount -t ubifs ubi0:files /mnt
    helper manifest /mnt >$1.linux
    echo new >/mnt/new
    sync
    rm /mnt/new
    checks 0
    if [ $mib -gt 0 ]; then helper churn /mnt 7 60 $mib >/dev/null; else rewrite; fi
    checks 1
    sync
    helper manifest /mnt >$1.churned
    umount /mnt
    dd if=/dev/ubi0_0 of=$1.after bs=1M 2>/dev/null
}

all() {
    ubiformat -q -y -O $offset /dev/mtd0
    ubiattach -O $offset -p /dev/mtd0 >/dev/null
    ubimkvol /dev/ubi0 -N files -S $lebs >/dev/null
    for name in general index; do echo 1 >/sys/kernel/debug/ubifs/chk_$name; done
    for image in $(cat images); do judge $image; done
    ubidetach -p /dev/mtd0
}

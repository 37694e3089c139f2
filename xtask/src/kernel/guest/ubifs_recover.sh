# What Linux does with volumes that nandkit wrote for `cargo xtask kernel ubifs-recover`. The lines
# before this file set up the flash and say: `lebs` LEBs of a volume, `offset` of volume identifiers.

# UBIFS's own checks of index, properties, orphans and files: they take long while much is written.
checks() {
    for name in general index orphans lprops fs; do echo $1 >/sys/kernel/debug/ubifs/chk_$name; done
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
    helper churn /mnt 7 60 $mib >/dev/null
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
    for image in $(cat images); do judge $image; done
    ubidetach -p /dev/mtd0
}

# What Linux does in each turn of `cargo xtask kernel ubi`. The lines before this file set up the
# flash and say `how` it is attached.

attach() {
    ubiattach $how -b 5 -p /dev/mtd0 >/dev/null
}

detach() {
    ubidetach -p /dev/mtd0
    nanddump --quiet --bb=dumpbad --noecc --oob --file=/run/dump /dev/mtd0
    cp /run/dump dump
}

# A line for each volume and each file: checksum, bytes, volume and path.
sums() {
    for name in $(cat /sys/class/ubi/ubi0_*/name); do
        [ $name != rootfs ] || continue
        bytes=$(content_bytes $name)
        echo $(head -c $bytes /dev/ubi0_$(number $name) | sha256sum | cut -d' ' -f1) $bytes all /$name
    done >$1.sums
    cd /mnt
    find . -type f | sort | while read -r file; do
        echo $(sha256sum <$file | cut -d' ' -f1) $(stat -c %s $file) rootfs ${file#.}
    done >>$place/$1.sums
    cd $place
}

# Bytes of a volume that are compared. Dynamic ones do not know how long their content is.
content_bytes() {
    case $1 in
    kernel | signature) cat /sys/class/ubi/ubi0_$(number $1)/data_bytes ;;
    *) echo 200000 ;;
    esac
}

number() {
    for volume in /sys/class/ubi/ubi0_*; do
        [ $(cat $volume/name) != $1 ] || echo ${volume##*_}
    done
}

update() {
    ubiupdatevol /dev/ubi0_$(number $1) $2
}

first() {
    ubiformat $how -q -y /dev/mtd0
    attach
    ubimkvol /dev/ubi0 -N kernel -s 500000 -t static >/dev/null
    ubimkvol /dev/ubi0 -N raw -s 500000 >/dev/null
    ubimkvol /dev/ubi0 -N gone -s 200000 >/dev/null
    ubimkvol /dev/ubi0 -N rootfs -s 6000000 >/dev/null
    for name in kernel raw gone; do
        head -c 200000 /dev/urandom >/run/content
        update $name /run/content
    done
    mount -t ubifs ubi0:rootfs /mnt
    mkdir /mnt/etc
    for name in a b c d; do head -c 150000 /dev/urandom >/mnt/etc/$name; done
    sync
    sums first
    umount /mnt
    detach
}

second() {
    flash_erase --quiet /dev/mtd0 0 0
    nandwrite --quiet --noecc --oob /dev/mtd0 ours
    attach
    ubinfo -a >ubinfo
    mount -t ubifs ubi0:rootfs /mnt
    sums ours
    head -c 180001 /dev/ubi0_$(number kernel) | cmp - new
    head -c 250000 /dev/ubi0_$(number raw) | cmp - more
    # What was called `raw` before, and all files, are as they were.
    [ "$(grep ' /blob$' ours.sums | cut -d' ' -f1)" = "$(grep ' /raw$' first.sums | cut -d' ' -f1)" ]
    [ "$(grep ' rootfs ' ours.sums)" = "$(grep ' rootfs ' first.sums)" ]
    [ -z "$(number gone)" ]
    turn=0
    while [ $turn -lt 20 ]; do
        head -c 1500000 /dev/urandom >/mnt/churn$((turn % 2))
        sync
        turn=$((turn + 1))
    done
    head -c 220000 /dev/urandom >/run/content
    update blob /run/content
    update signature new 2>/dev/null && exit 1
    head -c 9000 /dev/urandom >/run/content
    update signature /run/content
    sync
    sums second
    umount /mnt
    dmesg | grep -E 'UBI(FS)? (error|warning)|ubi0 (error|warning)|UBIFS error' | grep -v 'not enough' && exit 1
    detach
}

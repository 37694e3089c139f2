#!/bin/sh
# The guest's first program: mounts what it is given, runs the script, leaves its outcome in the job folder, and ends the machine.
export PATH=/bin:/sbin HOME=/

# isa-debug-exit: the machine ends with exit status 2 * 16 + 1.
finish() {
    printf '\020' | dd of=/dev/port bs=1 seek=244 count=1 conv=notrunc 2>/dev/null
    poweroff -f
}

mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev 2>/dev/null
mount -t tmpfs none /run
mount -t tracefs none /sys/kernel/tracing
mount -t debugfs none /sys/kernel/debug
modprobe -a virtio_pci virtio_blk 9pnet_virtio 9p || finish
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 job /job || finish
if grep -q share /sys/bus/virtio/drivers/9pnet_virtio/*/mount_tag; then
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share || finish
fi
modules=0
while read -r line; do
    # Unquoted: a line is a module and its parameters.
    modprobe $line >>/job/output 2>&1 || modules=1
done </job/modules
if [ $modules = 0 ]; then
    sh -e /job/script >>/job/output 2>&1 </dev/null
    echo $? >/job/status
fi
dmesg >/job/log
cat /proc/sys/kernel/tainted >/job/tainted
sync
finish

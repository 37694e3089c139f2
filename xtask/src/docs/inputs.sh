# What the examples of the help work on: trees, images of each format, a trace and a spec.
set -e
mkdir -p rootfs/etc/init.d rootfs/bin rootfs/www rootfs/usr/lib rootfs/lib rootfs/var/log rootfs/var/core \
    rootfs/old overlay/etc photos home data/app system/bin www mnt .local/share/bash-completion/completions
printf 'root:x:0:0::/root:/bin/sh\n' > rootfs/etc/passwd
for file in etc/rc.new etc/hostname etc/init.d/rcS bin/app bin/su bin/ping bin/busybox lib/libc.so.6 www/index.html a b
do echo "$file" > rootfs/$file; done
echo motd > motd; cp rootfs/etc/passwd passwd; echo new > overlay/etc/motd; echo app > data/app/base.apk
echo sh > system/bin/sh; echo ls > system/bin/ls; echo photo > photos/1.jpg; echo page > www/index.html
printf '/ u:object_r:rootfs:s0\n/system(/.*)? u:object_r:system_file:s0\n' > file_contexts
printf ' 0 0 755\nsystem 0 0 755\nsystem/bin 0 2000 755\nsystem/bin/sh 0 2000 755\nsystem/bin/ls 0 2000 755\n' > fs_config
tar cf rootfs.tar rootfs && gzip -k rootfs.tar && tar czf overlay.tar.gz -C overlay . && tar cf tree.tar data
zstd -q rootfs.tar -o linux.tar.zst
tar cf home.tar -C home . -C ../photos 1.jpg && cp rootfs.tar.gz boot.tar.gz
nandkit mkfs jffs2 --from rootfs --device nandsim-32m-128k --oob --size 8M --owner 0:0 dump.bin > log
nandkit put dump.bin passwd /etc/passwd >> log
nandkit put dump.bin passwd /etc/passwd >> log
nandkit mkfs jffs2 --from rootfs --erase-size 64K --size 8M rootfs.jffs2 >> log
nandkit mkfs jffs2 --from rootfs --device nandsim-32m-128k --oob --size 32M router.nand >> log
nandkit mkfs f2fs --from data --size 64M userdata.img >> log
nandkit mkfs f2fs --from system --mount-point /system --fs-config fs_config --file-contexts file_contexts \
    --size 64M system.img >> log
cp userdata.img disk.img; cp userdata.img data.img
dd if=/dev/zero of=card.img bs=1M count=16 2>> log; mkfs.vfat card.img >> log
mmd -i card.img ::DCIM; mcopy -i card.img photos/1.jpg ::DCIM/IMG_0001.JPG; mdel -i card.img ::DCIM/IMG_0001.JPG
printf '128166372003061629,src1,0,Write,0,8192,1\n128166372013061629,src1,0,Read,4096,512,1\n' > disk.csv
printf 'workload = "fax:faxes=1"\n[stack]\ndevice = "nandsim-32m-128k"\nftl = "block-map"\nfs = "fat"\n' > spec.toml
printf '#!/bin/sh\necho a > a; sync\n' > load.sh; printf '#!/bin/sh\ntrue\n' > verify.sh; chmod +x load.sh verify.sh
nandkit run spec.toml --device-file card.nand >> log
for name in one other; do nandkit exec --fs fat --json -- sh -c 'echo a > a' > $name.json; done
mkdir results; cp one.json results/runs.jsonl; cp one.json before.jsonl; cp other.json after.jsonl
nandkit reproduce theory.merge --quick --json > claims.json
nandkit mkfs ubifs --from rootfs -m 2048 -e 126976 -c 100 rootfs.ubifs >> log; cp motd zImage
for name in kernel rootfs; do printf "[$name]\nmode=ubi\nvol_name=$name\nvol_size=4MiB\n"; done > volumes.ini
sed -i 's/^vol_name=kernel/image=zImage\nvol_type=static\n&/; s/^vol_name=rootfs/image=rootfs.ubifs\n&/' volumes.ini
nandkit ubi ubinize volumes.ini flash.bin -p 128K -m 2048
for name in data rootfs_a rootfs_b; do nandkit ubi mkvol flash.bin $name 4M --size 64M >> log; done

//! FAT12, FAT16 and FAT32 with long names over a BlockDevice, ordered for power cuts

//! Flash translation layers: BlockDevice over Flash

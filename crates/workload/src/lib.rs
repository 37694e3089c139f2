//! Seeded operation streams on files and on blocks, and trace readers

//! One bounded page cache on the injected clock

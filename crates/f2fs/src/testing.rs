//! Internals for this crate's tests, examples and measurements only, behind the feature `testing`.

macro_rules! inner_modules {
    ($($module:ident),*) => {
        $(
            #[doc = concat!("The public items of the module `", stringify!($module), "`.")]
            pub mod $module {
                pub use crate::$module::*;
            }
        )*
    };
}

inner_modules!(bits, counters, device, directory, encode, names, node, pages, quota, xattr);

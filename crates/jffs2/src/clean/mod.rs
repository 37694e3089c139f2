//! The collector: a victim is chosen by a policy of `cleaning`, its valid nodes go elsewhere one by
//! one, then it is erased.

mod erase;
mod live;
mod pass;
mod trigger;
mod view;
mod xattr;

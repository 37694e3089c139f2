//! The collector: a policy of `cleaning` chooses a victim, its valid nodes are moved one by one,
//! then it is erased.

mod erase;
mod live;
mod pass;
mod trigger;
mod view;
mod xattr;

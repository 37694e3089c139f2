//! Every cleaning decision as a pure function over plain data

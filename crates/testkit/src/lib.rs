//! Conformance suites, cut plans, model oracles and outside judges for tests

//! Tests of media of units.

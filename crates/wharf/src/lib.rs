//! Wharf: compare five ways to cache between a host and a drive. Library facade and command line.

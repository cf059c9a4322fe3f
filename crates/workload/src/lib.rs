//! Block traces and synthetic workloads as one stream of requests.

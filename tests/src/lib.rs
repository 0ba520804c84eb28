//! Server harness of redlatch: real servers, a fault proxy and command capture.

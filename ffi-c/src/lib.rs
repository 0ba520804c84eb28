//! C ABI of redlatch; see `include/redlatch.h`.

//! One correct distributed lock on Redis.

//! Python extension of redlatch.

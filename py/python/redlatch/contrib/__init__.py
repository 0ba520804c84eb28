"""Small parts for frameworks; each needs its package, redlatch itself needs none."""

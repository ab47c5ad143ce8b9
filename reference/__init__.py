"""The published algorithm written out, and a brute-force oracle: tests and benchmarks compare with them."""

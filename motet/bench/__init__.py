"""Benchmarks of the parts and of the whole; each prints a table and, when asked, writes JSON."""

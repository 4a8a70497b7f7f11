"""Experiments: configuration, the loop, many side by side, what a person sees, the record."""

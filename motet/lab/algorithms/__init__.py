"""Trajectories in, datums out: one small file an algorithm."""

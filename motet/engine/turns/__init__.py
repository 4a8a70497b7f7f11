"""Whose turn it is: accounts of device time, and the policies that read them. Knows no tensors and no requests."""

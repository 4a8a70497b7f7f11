"""Sampling by vLLM, in this process or on a server of its own; what is trained stays with another backend."""

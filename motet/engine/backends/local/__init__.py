"""The local backend: one base model on one device, shared by sampler and trainer."""

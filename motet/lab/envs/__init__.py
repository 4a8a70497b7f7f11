"""Environments: the protocol, the call formats, the tools and the tasks."""

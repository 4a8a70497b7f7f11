"""Clients: everything here speaks the API through the `tinker` SDK and knows nothing of the engine."""

"""Environments of the package `verifiers`: settings, an episode turned inside out, the mouth it asks."""

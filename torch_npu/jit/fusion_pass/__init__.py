"""Passes over TorchScript graphs."""

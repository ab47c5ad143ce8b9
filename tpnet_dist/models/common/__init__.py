"""Layers that several models use."""

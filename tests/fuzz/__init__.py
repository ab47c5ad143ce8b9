"""Hostile input through the real commands: a short part in `make test`, the long one by `make fuzz`."""

"""Distributed training of TPNet, a temporal link predictor, on sharded event logs."""

__version__ = "0.1.0"

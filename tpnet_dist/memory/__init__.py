"""Rows of walk projections, sharded by node: recorded, borrowed and read, ahead of the model."""

"""What the event prefix alone decides: rows of walk projections, and who met whom when."""

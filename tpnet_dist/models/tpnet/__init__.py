"""TPNet: logits of links from inner products of rows, and from recent neighbours."""

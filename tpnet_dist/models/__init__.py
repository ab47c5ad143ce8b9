"""Models on one device: tensors in, logits out. No node ids, no collectives."""

"""TPNet on one device: tensors in, logits out; no node ids, no collectives."""

from tpnet_dist.model.dropout import event_keys
from tpnet_dist.model.link_query import LinkQuery
from tpnet_dist.model.tpnet import TPNet

__all__ = ["LinkQuery", "TPNet", "event_keys"]

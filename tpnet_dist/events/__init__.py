"""Event logs on disk and in order: format, reader, batch plan, split."""

from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EventColumns

__all__ = ["EventColumns", "EventLog"]

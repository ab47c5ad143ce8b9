"""The words of the page in a sentence each, for whoever was sent a report."""

from tpnet_dist.report.blocks import Facts, Section

TERMS = (
    ("AP", "average precision: how well scores tell events from links that did not happen; 1 is best"),
    ("AUC", "how often an event scores above a link that did not happen; 0.5 is chance"),
    (
        "MRR, Hits@K",
        "of an event among many destinations: the mean of 1/rank, the share of the first K",
    ),
    ("transductive", "all events of a part, as DyGLib counts"),
    ("inductive", "events with a node that training has not seen"),
    ("negatives", "links that did not happen, against which events are scored"),
    ("random negatives", "the source with any destination: the easiest to tell from events"),
    ("historical negatives", "links that happened before, but not now"),
    ("inductive negatives", "links that happened before, but never in training"),
    ("EdgeBank", "a baseline that calls likely what it has seen before, and learns nothing"),
    ("timestamp batch", "events one after another that are scored with the memory as it was before them all"),
    ("memory, decay", "what walks through earlier events say of a node, and how fast they count for less"),
    ("epoch, step", "once through all training events; one change of the weights"),
    ("best epoch", "the one of the highest validation AP, whose weights all test figures are of"),
    ("rank", "one process of several that train together, each on a device of its own"),
)


def glossary() -> Section:
    """The last section of every page."""
    return Section("Words", [Facts("Words", TERMS)])

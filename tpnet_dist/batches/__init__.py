"""What a model is asked: events, negatives, neighbours and rows put together, batch by batch."""

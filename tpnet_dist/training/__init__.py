"""Training and evaluation: the only place where events, memory and model meet."""

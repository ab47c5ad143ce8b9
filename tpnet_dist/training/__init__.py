"""A training run: model and optimizer of a seed, steps, checkpoints, the run's folder."""

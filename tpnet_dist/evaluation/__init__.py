"""Scoring a part of the log: protocols, metrics, baselines without training, results."""

"""Ranks: who am I, who owns which row, exchange, ordered sums, failure. All collectives are here."""

"""Who am I among the ranks, who owns which row, and the only collectives of the project."""

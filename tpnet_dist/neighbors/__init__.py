"""Who met whom when: the index of recent interactions, its building, and look-ups across ranks."""

"""Using what was trained: scores of links from raw ids, after everything that has happened so far."""

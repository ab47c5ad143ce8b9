"""Speed and memory, measured: each benchmark prints a table and ends with one JSON line."""

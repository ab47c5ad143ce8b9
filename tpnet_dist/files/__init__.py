"""Files and the console: atomic writes, a folder lock, reading ahead, progress lines."""

"""How runs are started: settings for known datasets."""

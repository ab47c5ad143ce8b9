"""How runs are started: scripts, settings of DeepSpeed, settings for known datasets and machines."""

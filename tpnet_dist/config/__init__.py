"""Settings: their schema, TOML files and command-line flags, and the values of the paper."""

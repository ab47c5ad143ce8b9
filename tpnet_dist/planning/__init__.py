"""What a log will take of a machine, before there is one: bytes, seconds, bottleneck."""

"""A port that nobody listens on."""

import random
import socket


def free_port() -> str:
    """Below those that the system deals out, so that no other test's connection takes it meanwhile."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return str(port)
    raise AssertionError("none of a hundred ports is free")

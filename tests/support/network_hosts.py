"""Two hosts on one machine: network namespaces joined by a cable that can be cut. Needs Linux and root."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

ADDRESSES = ("10.77.0.1", "10.77.0.2")
INTERFACE = "cable"


@dataclass(frozen=True)
class Hosts:
    """Names of the two namespaces."""

    names: tuple[str, str]

    def inside(self, host: int) -> list[str]:
        """What to write before a command that is to run on a host."""
        return ["ip", "netns", "exec", self.names[host]]

    def cut(self) -> None:
        """Packets are lost without a word, as where a switch fails."""
        _ip("-n", self.names[0], "link", "set", INTERFACE, "down")

    def rejoin(self) -> None:
        _ip("-n", self.names[0], "link", "set", INTERFACE, "up")


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    mark = uuid4().hex[:8]
    names = (f"host-a-{mark}", f"host-b-{mark}")
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip(
            *("link", "add", INTERFACE, "netns", names[0], "type", "veth"),
            *("peer", "name", INTERFACE, "netns", names[1]),
        )
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", INTERFACE)
            _ip("-n", name, "link", "set", INTERFACE, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield Hosts(names)
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)


def can_make_hosts() -> bool:
    if shutil.which("ip") is None:
        return False
    name = f"trial-{uuid4().hex[:8]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        _ip("netns", "del", name)
    return made


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True)

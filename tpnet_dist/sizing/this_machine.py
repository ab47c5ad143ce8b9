"""The device of a plan where none is named: what ranks on this machine would compute on."""

import os
from dataclasses import replace

import torch

from tpnet_dist.errors import InputError
from tpnet_dist.sizing.devices import Device, device_named

_GPUS = {"3090": "rtx3090", "A100": "a100", "H100": "h100"}
"""Parts of the names of GPUs that devices.toml knows."""


def this_machine() -> Device:
    """Return the GPUs there are, or the CPU with this host's cores and memory."""
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        known = next((device for part, device in _GPUS.items() if part in name), None)
        if known is None:
            raise InputError(
                f"of the GPU here, {name}, no figures are known; name one that is like it, with --device "
                "rtx3090, a100 or h100"
            )
        return device_named(known)
    cpu, cores = device_named("cpu"), os.cpu_count() or 1
    return replace(
        cpu,
        title=f"this machine's CPU, {cores} cores, each as fast as {cpu.title.split(', two in a host')[0]}",
        host_memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        ranks_per_host=cores,
    )

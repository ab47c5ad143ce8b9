"""The GPU path, on an emulated device: see tests/support/emulated_cuda."""

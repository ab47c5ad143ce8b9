"""A CUDA device on a machine without one: the GPU path runs, on the host, and is watched while it does.

    library, cuda_backend.cpp   what torch's C++ asks of a CUDA build, compiled on first use
    device                      tensors that say cuda:0 and compute on the host; mixing of devices is an error
    streams                     streams and events that only order; unordered uses of memory are found
    operation_log               kernels, copies, waits, and everything that would go wrong on a GPU
    nccl                        process groups called nccl that are gloo; the order of their collectives
    torch_cuda                  what torch.cuda answers
    ranks                       processes that have all of it, as ranks

It shows devices, types, numerics, order and counts. It shows neither real kernels nor NCCL nor speed. Dropout
differs from the host's, as on a GPU; `inference_mode` is `no_grad` here.
"""

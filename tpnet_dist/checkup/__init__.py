"""Whether this machine trains as it should: links, kernels and a short training, compared and timed."""

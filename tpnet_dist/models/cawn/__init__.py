"""CAWN (Wang et al. 2021): walks back in time from both ends, known by how often each end's walks pass."""

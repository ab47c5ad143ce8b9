"""DyGFormer (Yu et al. 2023): a transformer over patches of what both ends of a link lately met."""

"""TGAT (Xu et al. 2020): attention over the interactions of a node, and over those of its neighbours."""

"""GraphMixer (Cong et al. 2023): an MLP-Mixer over recent interactions, and a mean of node features."""

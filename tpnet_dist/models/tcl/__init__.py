"""TCL (Wang et al. 2021): two transformers over recent interactions that attend to one another."""

"""A trained model as a service over HTTP: scores, rankings, and events that are kept once acknowledged."""

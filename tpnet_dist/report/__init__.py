"""A run's folder as one HTML page: what is read from it, how it is drawn, how the page is put together."""

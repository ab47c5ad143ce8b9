"""Bytes and seconds of a run, before it starts: what a rank holds, whether it fits, how long a step takes."""

"""`python -m tpnet_dist.evaluate RUN`. Nothing imports it: `tpnet_dist.evaluate` is a function in Python."""

from tpnet_dist.evaluate_command import main

if __name__ == "__main__":
    main()

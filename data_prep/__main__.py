"""`python -m data_prep convert | synth | describe`."""

import tyro

from data_prep.convert_command import Convert
from data_prep.describe_command import Describe
from data_prep.synth_command import Synth
from tpnet_dist.errors import errors_for_people

PROGRAM = "python -m data_prep"


def main() -> None:
    """Turn raw event files into data folders, make synthetic ones, describe them."""
    command: Convert | Synth | Describe = tyro.cli(
        Convert | Synth | Describe, prog=PROGRAM, description=main.__doc__
    )
    with errors_for_people(PROGRAM, debug=command.debug):
        command.run()


if __name__ == "__main__":
    main()

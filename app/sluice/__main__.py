"""`sluice`, and `python -m sluice`: the command, or which extra it needs."""

from __future__ import annotations

import os
import sys

BLOCKED = 2
"""The exit code of `sluice hook` that lets no tool run."""
MISSING = 2
"""The exit code where the packages of the commands are not installed."""


def main() -> None:
    """Run the command. The package alone is an agent's client: without the extra `worker` it says so."""
    if sys.argv[1:2] == ["hook"] and "--help" not in sys.argv:
        try:
            from sluice.cli.machine.hook import main as answer  # noqa: PLC0415 - it runs before each call

            answer(sys.argv[2:])
        finally:
            os._exit(BLOCKED)  # a package that cannot be loaded must not let the tool run
    try:
        from sluice.cli.main import main as run  # noqa: PLC0415 - an agent's client has no Typer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "sluice":
            raise
        needed = "sluice's commands need the extra `worker`: pip install 'sluice[worker]'"
        print(f"{needed} ({error.name} is missing)", file=sys.stderr)  # noqa: T201 - no Rich either
        sys.exit(MISSING)
    run()


if __name__ == "__main__":
    main()

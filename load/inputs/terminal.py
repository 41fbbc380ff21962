"""`python -m load.inputs.terminal`: what a person types into `sluice`, for as long as lines come.

Each line of standard input is a command's words as JSON; each line of standard output its exit code and what
it said. One process for many commands: the imports take longer than the commands.
"""

from __future__ import annotations

import json
import sys

from typer.testing import CliRunner

from sluice.cli.main import cli


def main() -> None:
    """Until standard input ends."""
    runner = CliRunner()
    for line in sys.stdin:
        result = runner.invoke(cli, json.loads(line))
        print(json.dumps({"code": result.exit_code, "said": result.output}), flush=True)


if __name__ == "__main__":
    main()

"""`python -m app` is the `sluice` command."""

from app.cli.main import main

main()

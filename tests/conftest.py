"""What every test may ask for."""

from __future__ import annotations

import os

# Nothing here skips: a test that needs a broker starts one, and fails with the three ways if it cannot.
os.environ.pop("SLUICE_CONFIG", None)  # a developer's own settings must not decide what the tests see

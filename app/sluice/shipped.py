"""Where the files lie that Sluice ships beside its code, and where it keeps what it makes.

A wheel carries the tree's folder config/ inside the package; a checkout has it at the top level, beside app/.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "config"
_CHECKOUT = _PACKAGE.parents[1]

SHIPPED_FILES = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT / "config"
"""The folder of defaults, bundles, patterns, examples and the encoder's model."""
BUILD = Path.home() / ".sluice" / "build" if _INSTALLED.is_dir() else _CHECKOUT / "build"
"""Where the local broker, its jars and the demo live: of the checkout, or of who installed a wheel."""

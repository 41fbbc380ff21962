"""Shares as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.reports.report_figures import Rate

NOTHING = "-"
_LEAST, _MOST = 0.0001, 0.9999


def percent(rate: Rate) -> str:
    """With two digits; a dash for a rate of nothing.

    Only all is 100 % and only none is 0 %: one missing of a million must not be rounded away.
    """
    found = rate.rate
    if found is None:
        return NOTHING
    if found in (0, 1):
        return f"{found:.0%}"
    return "<0.01%" if found < _LEAST else ">99.99%" if found > _MOST else f"{found:.2%}"

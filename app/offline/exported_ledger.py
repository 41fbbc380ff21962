"""An exported ledger read for its values alone (the format is described in app/verifier/export.py).

The verifier has a reader of its own, which checks places and keys too; this one is for a report over millions
of lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from app.core.reports.report_tally import NotADecisionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def read_export(lines: Iterable[bytes], topics: Sequence[str], take: Callable[[str | None], None]) -> None:
    """Hand the value of every record of these topics (base names; any prefix) to `take`, in the file's order.

    Raises NotADecisionError with the line's number, for a line that is none of an export too.
    """
    bases = tuple(topics)
    for number, line in enumerate(lines, start=1):
        try:
            fields = orjson.loads(line)
            if fields["topic"].endswith(bases):
                take(fields["value"])
        except NotADecisionError as error:
            raise NotADecisionError(f"line {number}: {error}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NotADecisionError(f"line {number} is not a line of a ledger export: {error!r}") from None

"""What Gate 1 found in an action: values, from which the stage decides."""

from __future__ import annotations

from typing import NamedTuple

from topics.records.base import Severity  # noqa: TC001 - named in a NamedTuple


class Hit(NamedTuple):
    """A pattern that was found.

    `path` is the JSON path of the leaf ("$.parameters.cmd[2]"), `form` how it was found there: "plain",
    or the disguises and languages that were seen through, outermost first ("base64 > sh -c").
    """

    id: str
    reason: str
    severity: Severity
    path: str
    form: str


class Inspection(NamedTuple):
    """`inconclusive` says which bound stopped the reading, None where everything was read.

    `texts` are all texts in which a target may be named: leaves, keys, and every form that was unfolded.
    """

    hits: tuple[Hit, ...]
    inconclusive: str | None
    texts: tuple[str, ...]

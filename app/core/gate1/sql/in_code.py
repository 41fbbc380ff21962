"""SQL inside code of other languages: the strings handed to `execute(...)`, `raw(...)`, `query(...)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_STATEMENTS = 8
"""SQL texts taken from one piece of code."""
_STRING = (
    r"(?:\"\"\"(?P<a>.{4,2000}?)\"\"\"|'''(?P<b>.{4,2000}?)'''|\"(?P<c>(?:[^\"\\]|\\.){4,2000})\""
    r"|'(?P<d>(?:[^'\\]|\\.){4,2000})'|`(?P<e>[^`]{4,2000})`)"
)
_CALL = re.compile(
    r"\b(?:execute\w*|exec_driver_sql|read_sql\w*|raw\w*|query\w*|text|prepare\w*|sql|mysql_query|pg_query)"
    r"\s*\(\s*(?:\w+\s*,\s*)?(?:text\(\s*)?[fbru]{0,2}" + _STRING,
    re.DOTALL | re.IGNORECASE,
)


def sql_in_code(text: str) -> Iterator[str]:
    """The SQL texts that the code hands to a database, at most MOST_STATEMENTS."""
    for count, found in enumerate(_CALL.finditer(text)):
        if count == MOST_STATEMENTS:
            return
        yield next(one for one in found.groups() if one is not None)

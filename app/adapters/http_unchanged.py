"""Validators of RFC 9110, section 8.8, as far as "unchanged" means the same bytes, and can be said again.

A weak entity tag stands for a like meaning, and a date for whole seconds: neither would do for a hash.
"""

from __future__ import annotations

import re
from calendar import timegm
from email.utils import parsedate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.ports import Known

_STRONG_TAG = re.compile(r'"[!#-~]{0,510}"')
_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
"""IMF-fixdate, section 5.6.7; the obsolete forms are not said again."""
_SETTLED_S = 60
"""What changed at least this long before the answer was made cannot change again within the same second
(section 8.8.2.2, in its older and stricter reading)."""


def conditions(known: Known | None) -> dict[str, str]:
    """The fields of a request that may be answered with 304."""
    if known is None:
        return {}
    if known.etag is not None:
        return {"if-none-match": known.etag}
    return {} if known.last_modified is None else {"if-modified-since": known.last_modified}


def validators(fields: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Entity tag and date of a response, as far as another request can be conditioned on them."""
    etag = fields.get("etag", "")
    if _STRONG_TAG.fullmatch(etag):
        return etag, None
    modified = fields.get("last-modified", "")
    changed, made = _seconds(modified), _seconds(fields.get("date", ""))
    settled = changed is not None and made is not None and made - changed >= _SETTLED_S
    return None, modified if settled else None


def _seconds(date: str) -> int | None:
    if _DATE.fullmatch(date) is None:
        return None
    parsed = parsedate(date)
    return None if parsed is None else timegm(parsed)

"""The list of what waits for an approver: filtered, searched, sorted, grouped, in pages. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from sluice.core.foundation.clock import read_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.core.reports.pending_subject import PendingSubject
    from sluice.gateway.action_summary import WaitingContent

PAGE_ROWS = 50
LONGEST_QUERY = 200
UNREAD = "(not read yet)"
FILTERS = ("tool", "agent", "tier", "reason")
SORTS = {
    "oldest": "the oldest first",
    "expires": "the least time left first",
    "rows": "the most rows first",
    "tool": "by tool",
    "agent": "by agent",
    "tier": "the highest tier first",
}


@dataclass(frozen=True, slots=True)
class Query:
    """What a person asked the list for; an empty text asks for nothing. `text`: is in any field of a line.
    `by` "group": one line for all of the same agent, tool and reason. `page` counts from 1."""

    tool: str = ""
    agent: str = ""
    tier: str = ""
    reason: str = ""
    text: str = ""
    sort: str = "oldest"
    by: str = ""
    page: int = 1

    @classmethod
    def read(cls, params: Mapping[str, str]) -> Query:
        """Read the query of a page's address; a part that is not understood is left out."""
        texts = {name: params.get(name, "").strip()[:LONGEST_QUERY] for name in (*FILTERS, "text")}
        page = params.get("page", "1")
        return cls(
            **texts,
            sort=params.get("sort", "") if params.get("sort") in SORTS else "oldest",
            by="group" if params.get("by") == "group" else "",
            page=int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1,  # noqa: PLR2004
        )

    @classmethod
    def parse(cls, text: str) -> Query:
        """Read the text that `address` gives."""
        return cls.read(dict(parse_qsl(text[: LONGEST_QUERY * len(FILTERS) * 12])))

    @property
    def address(self) -> str:
        """The query of a page's address, without what it does not ask for."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        default = Query()
        return urlencode({name: value for name, value in fields.items() if value != getattr(default, name)})

    @property
    def narrows(self) -> bool:
        """Whether some of what waits may not be in the list."""
        return any(getattr(self, name) for name in (*FILTERS, "text"))

    def address_page(self, page: int) -> str:
        """The address of another page of the same list."""
        return replace(self, page=max(1, page)).address

    def address_alike(self, row: QueueRow) -> str:
        """The address of the list of what is alike."""
        return replace(
            self, tool=row.tool, agent=row.agent, reason=row.code, tier="", text="", by="", page=1
        ).address


class QueueRow(NamedTuple):
    """A line. `name`: the caller's id of it; `code`: the word with which its reason begins; `alike`: how many
    wait of the same agent, tool and reason, itself among them; `expires_ms` since 1970."""

    id: str
    name: str
    opened: Mapping[str, Any]
    content: WaitingContent | None
    tool: str
    agent: str
    code: str
    tier: str
    expires_ms: int
    alike: int = 1

    @property
    def key(self) -> tuple[str, str, str]:
        """The agent, tool and reason that lines of one group have in common."""
        return self.agent, self.tool, self.code

    @property
    def rows(self) -> int:
        """That the caller says it changes; -1 where it says nothing."""
        return -1 if self.content is None or self.content.rows is None else self.content.rows


class RowGroup(NamedTuple):
    """Lines of the same agent, tool and reason, the first of the list first."""

    rows: list[QueueRow]

    @property
    def ids(self) -> str:
        """The ids of all, with blanks between them."""
        return " ".join(row.id for row in self.rows)

    @property
    def expires_ms(self) -> int:
        """When the first of them expires."""
        return min(row.expires_ms for row in self.rows)

    @property
    def rows_span(self) -> str:
        """The fewest and the most rows that they change."""
        counts = sorted(row.rows for row in self.rows if row.rows >= 0)
        if not counts:
            return ""
        return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"


class QueuePage(NamedTuple):
    """A list as it is shown. `rows` and `groups`: of the page; `matched` and `waiting`: how many lines there
    are on all pages, and without the filters; `choices`: what each filter may be set to."""

    query: Query
    rows: list[QueueRow]
    groups: list[RowGroup]
    matched: int
    waiting: int
    pages: int
    choices: dict[str, list[str]]


class QueueWalk(NamedTuple):
    """Where an escalation is in a list: its `position` from 1 of `total` (0: it is no longer in it), the ids
    before and after it."""

    query: Query
    position: int
    total: int
    before: str | None
    after: str | None


def build_rows(
    waiting: Iterable[PendingSubject], content_of: Callable[[str], WaitingContent | None]
) -> list[QueueRow]:
    """A line for each escalation."""
    rows = [_build_row(subject, content_of(subject.subject_id)) for subject in waiting]
    alike = Counter(row.key for row in rows)
    return [row._replace(alike=alike[row.key]) for row in rows]


def list_rows(rows: Sequence[QueueRow], query: Query) -> QueuePage:
    """A page of the lines that a query asks for."""
    selected = select(rows, query)
    groups = group_rows(selected) if query.by else []
    count = len(groups) if query.by else len(selected)
    pages = max(1, -(-count // PAGE_ROWS))
    page = min(max(query.page, 1), pages)
    cut = slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS)
    choices = {
        "tool": _list_choices(row.tool for row in rows),
        "agent": _list_choices(row.agent for row in rows),
        "tier": _list_choices(row.tier for row in rows if row.tier),
        "reason": _list_choices(row.code for row in rows),
    }
    query = replace(query, page=page)
    return QueuePage(
        query, [] if query.by else selected[cut], groups[cut], len(selected), len(rows), pages, choices
    )


def select(rows: Iterable[QueueRow], query: Query) -> list[QueueRow]:
    """The lines that a query asks for, of all pages, in its order."""
    text = query.text.casefold()
    selected = [
        row
        for row in rows
        if query.tool in ("", row.tool)
        and query.agent in ("", row.agent)
        and query.tier in ("", row.tier)
        and query.reason in ("", row.code)
        and (not text or text in _write_search_text(row))
    ]
    return sorted(selected, key=_ORDERS[query.sort])


def group_rows(rows: Iterable[QueueRow]) -> list[RowGroup]:
    """Lines of the same agent, tool and reason together, the largest group first."""
    groups: dict[tuple[str, str, str], list[QueueRow]] = {}
    for row in rows:
        groups.setdefault(row.key, []).append(row)
    return [RowGroup(group) for group in sorted(groups.values(), key=len, reverse=True)]


def find_walk(rows: Iterable[QueueRow], query: Query, an_id: str) -> QueueWalk:
    """The way from one escalation through a query's list. From one that is no longer in it, to the first."""
    ids = [row.id for row in select(rows, query)]
    if an_id not in ids:
        return QueueWalk(query, 0, len(ids), None, ids[0] if ids else None)
    at = ids.index(an_id)
    before, after = ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None
    return QueueWalk(query, at + 1, len(ids), before, after)


def _build_row(subject: PendingSubject, content: WaitingContent | None) -> QueueRow:
    an_id, opened = subject.subject_id, subject.fields
    if "tool_category" in opened:
        tool = f"retrieval for {opened['tool_category']}"
    else:
        tool = UNREAD if content is None else content.tool
    return QueueRow(
        an_id,
        subject.name or an_id,
        opened,
        content,
        tool,
        subject.agent,
        subject.code,
        str(opened.get("tier") or ""),
        read_milliseconds(str(opened["expires_at"])),
    )


def _write_search_text(row: QueueRow) -> str:
    opened = row.opened
    texts = [row.id, row.name, row.tool, row.agent, row.tier, str(opened["reason"])]
    texts += [str(opened.get(name) or "") for name in ("session_id", "group", "required_role")]
    if row.content is not None:
        texts.append(row.content.text)
    return "\n".join(texts).casefold()


def _list_choices(names: Iterable[str]) -> list[str]:
    return sorted(set(names))


def _read_opening(row: QueueRow) -> str:
    return str(row.opened["opened_at"])


_ORDERS: dict[str, Callable[[QueueRow], Any]] = {
    "oldest": lambda row: (_read_opening(row), row.id),
    "expires": lambda row: (row.expires_ms, row.id),
    "rows": lambda row: (-row.rows, _read_opening(row), row.id),
    "tool": lambda row: (row.tool, _read_opening(row), row.id),
    "agent": lambda row: (row.agent, _read_opening(row), row.id),
    "tier": lambda row: ([-ord(character) for character in row.tier] or [0], _read_opening(row), row.id),
}

"""A policy document in passages, each with its place: what `sluice policy import` proposes policies from.

Markdown and plain text are read by markdown-it-py, PDF by pypdf, HTML by the standard library. A passage is a
paragraph or an item of a list; its place names the headings above it, or the page, and its number there. What
a document holds is data: nothing in it is followed, fetched or run.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, NamedTuple

from markdown_it import MarkdownIt

from sluice.core.actions.policies import MOST_POLICIES
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MOST_BYTES = 20_000_000
MOST_PAGES = 2000
LONGEST_PASSAGE, LONGEST_TITLE, LONGEST_PLACE = 4000, 120, 256
_PLACE_MARK = " > "
OBLIGES = re.compile(
    r"(?i)\b(?:must(?:\s+not)?|shall(?:\s+not)?|may\s+not|may\s+only|(?:is|are|be)\s+(?:required|prohibited|"
    r"forbidden|restricted|limited)|not\s+(?:be\s+)?(?:permitted|allowed)|only\s+(?:with|after|if|when)|"
    r"never|no\s+(?:one|employee|agent|person)\s+(?:may|shall)|need(?:s)?\s+(?:the\s+)?(?:approval|consent)|"
    r"require(?:s)?\s+(?:the\s+)?(?:approval|consent|authori[sz]ation)|(?:do|does)\s+not|cannot|is\s+entitled)\b"
)
"""Words of duty and prohibition in English: what a rule for actions can rest on."""


class DocumentError(Exception):
    """The file is no document that can be read; the message says why."""


class Passage(NamedTuple):
    """`section`: the headings above it or its page, and which paragraph it is; `heading`: the nearest one."""

    section: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """A document by name, the digest of its bytes (hex SHA-256), and its passages in their order."""

    name: str
    sha256: str
    passages: tuple[Passage, ...]


def read_document(path: Path, name: str | None = None) -> PolicyDocument:
    """Markdown, HTML or PDF, by the file's ending; `name` None: the file's. Raises DocumentError, OSError."""
    raw = path.read_bytes()
    if len(raw) > MOST_BYTES:
        raise DocumentError(f"{path.name} has {count_noun(len(raw), 'byte')}; {MOST_BYTES} are the most")
    readers = {
        ".pdf": _read_pdf,
        ".html": _read_html,
        ".htm": _read_html,
        ".md": _read_markdown,
        ".txt": _read_markdown,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DocumentError(f"{path.name} is none of {', '.join(sorted(readers))}")
    passages = tuple(_number_passages(reader(raw)))
    if not passages:
        raise DocumentError(f"{path.name} has no text; of a scanned page there is none to read")
    return PolicyDocument(name or path.stem, sha256(raw).hexdigest(), passages)


def propose_policies(document: PolicyDocument, *, everything: bool = False) -> list[dict[str, Any]]:
    """Policies for a person to look at, as a bundle has them: of each passage that obliges (`everything`: of
    all). Each escalates, names no tool and has no condition. Raises DocumentError for too many."""
    slug = re.sub(r"[^a-z0-9]+", "-", document.name.lower()).strip("-")[:48] or "document"
    chosen = [passage for passage in document.passages if everything or OBLIGES.search(passage.text)]
    if len(chosen) > MOST_POLICIES:
        raise DocumentError(
            f"{count_noun(len(chosen), 'passage')}; a bundle takes {MOST_POLICIES} policies: import a part"
        )
    return [
        {
            "id": f"{slug}.{number}",
            "title": _write_title(passage),
            "text": passage.text,
            "outcome": "escalate",
            "appliesToTools": [],
            "source": {"document": document.name[:256], "place": passage.section, "sha256": document.sha256},
        }
        for number, passage in enumerate(chosen, 1)
    ]


def _write_title(passage: Passage) -> str:
    first = re.split(r"(?<=[.;:!?])\s", passage.text, maxsplit=1)[0]
    title = f"{passage.heading}: {first}" if passage.heading else first
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"


Raw = tuple[tuple[str, ...], str]
"""What stands above a passage, and its text."""


def _number_passages(raw: Iterable[Raw]) -> Iterator[Passage]:
    counts: Counter[tuple[str, ...]] = Counter()
    for above, text in raw:
        plain = " ".join(text.split())
        for at in range(0, len(plain), LONGEST_PASSAGE):
            counts[above] += 1
            which = f"paragraph {counts[above]}"
            location = _PLACE_MARK.join([*above, which])
            if len(location) > LONGEST_PLACE:
                location = f"…{location[-LONGEST_PLACE + 1 :]}"
            yield Passage(location, above[-1] if above else "", plain[at : at + LONGEST_PASSAGE])


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8: {error.reason} at byte {error.start}") from None


def _read_markdown(raw: bytes) -> Iterator[Raw]:
    above: list[str] = []
    level = 0
    for token in MarkdownIt("commonmark").enable("table").parse(_decode_text(raw)):
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "inline":
            text = "".join(
                " " if child.type in {"softbreak", "hardbreak"} else child.content
                for child in token.children or ()
            )
            if level:
                above[level - 1 :] = [*[""] * (level - 1 - len(above)), " ".join(text.split())]
                level = 0
            elif text.strip():
                yield tuple(filter(None, above)), text


def _read_html(raw: bytes) -> Iterator[Raw]:
    reader = _HtmlReader()
    reader.feed(_decode_text(raw))
    reader.close()
    reader.end_block()
    yield from reader.passages


class _HtmlReader(HTMLParser):
    """Headings and blocks of text; what a browser would not show is left out."""

    _BLOCKS = frozenset(("p", "li", "td", "th", "dd", "dt", "blockquote", "div", "section", "article", "br"))
    _HIDDEN = frozenset(("script", "style", "template", "noscript", "nav", "head", "svg", "footer"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.passages: list[Raw] = []
        self._above: list[str] = []
        self._text: list[str] = []
        self._hidden = 0
        self._level = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in self._HIDDEN:
            self._hidden += 1
        elif re.fullmatch("h[1-6]", tag):
            self.end_block()
            self._level = int(tag[1])
        elif tag in self._BLOCKS:
            self.end_block()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif re.fullmatch("h[1-6]", tag) or tag in self._BLOCKS:
            self.end_block()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._text.append(data)

    def end_block(self) -> None:
        """Take what was read since the last block as a heading or a passage."""
        text = " ".join("".join(self._text).split())
        self._text.clear()
        if self._level:
            level, self._level = self._level, 0
            self._above[level - 1 :] = [*[""] * (level - 1 - len(self._above)), text]
        elif text:
            self.passages.append((tuple(filter(None, self._above)), text))


def _read_pdf(raw: bytes) -> Iterator[Raw]:
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - of an extra
        from pypdf.errors import PyPdfError  # noqa: PLC0415 - as above
    except ImportError:
        raise DocumentError("PDF needs the extra `documents` (pypdf)") from None
    try:
        reader = PdfReader(io.BytesIO(raw))
        if len(reader.pages) > MOST_PAGES:
            raise DocumentError(f"{count_noun(len(reader.pages), 'page')}; {MOST_PAGES} are the most")
        pages = [page.extract_text() for page in reader.pages]
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise DocumentError(f"the PDF cannot be read: {type(error).__name__}") from None
    for number, text in enumerate(pages, 1):
        for paragraph in _split_paragraphs(text):
            yield (f"page {number}",), paragraph


_ITEM = re.compile(r"\s*(?:\(?[0-9a-z]{1,3}[.)]|[-•]|§|Art(?:icle|\.)|Section)\s")


def _split_paragraphs(text: str) -> Iterator[str]:
    """Lines that belong together: up to an empty line, or to one that ends a sentence before a new item."""
    together: list[str] = []
    for line in [*text.splitlines(), ""]:
        begins = not line.strip() or _ITEM.match(line)
        if begins and together:
            yield " ".join(together)
            together = []
        if line.strip():
            together.append(line.strip())

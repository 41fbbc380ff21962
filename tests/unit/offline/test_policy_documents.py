"""Documents in passages with their places, the policies proposed of them, and the sets that ship."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.core.actions.stages import load_bundle
from sluice.offline.bundle_source import SHIPPED, read_whole_bundle
from sluice.offline.policy_documents import DocumentError, propose_policies, read_document

if TYPE_CHECKING:
    from pathlib import Path

MARKDOWN = """\
Everyone must read this.

# Refunds

Refunds up to 100 euros
may be made by an agent. Larger ones *must not* be made without a person.

- A refund needs the approval of `finance`.
- Be friendly.

## Exceptions

| who | what |
|---|---|
| gold customers | shall get 200 euros |

# Data

Never send data to strangers.
"""
HTML = """<html><head><title>x</title><style>p {must}</style></head><body><nav>must not</nav>
<h1>Refunds</h1><p>Agents <b>must not</b> refund&nbsp;more.<p>Hello.</p><script>must()</script>
<ul><li>They shall ask.</ul><h2>Data</h2><div>Never sell it.<br>Thank you.</div></body></html>"""


def pdf(*pages: list[str]) -> bytes:
    """A PDF with these lines of text on its pages (ISO 32000-1, 7.5 and 9.4)."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for lines in pages:
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        kids.append(f"{len(objects) + 1} 0 R")
        content = len(objects) + 2
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        page = f"/Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {content} 0 R"
        objects += [
            f"<< /Type /Page {page} >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    written, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    return written + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def passages(folder: Path, name: str, content: str | bytes) -> list[tuple[str, str]]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(one.section, one.text) for one in read_document(path).passages]


def test_markdown(tmp_path: Path) -> None:
    assert passages(tmp_path, "rules.md", MARKDOWN) == [
        ("paragraph 1", "Everyone must read this."),
        (
            "Refunds > paragraph 1",
            "Refunds up to 100 euros may be made by an agent. Larger ones must not be made without a person.",
        ),
        ("Refunds > paragraph 2", "A refund needs the approval of finance."),
        ("Refunds > paragraph 3", "Be friendly."),
        ("Refunds > Exceptions > paragraph 1", "who"),
        ("Refunds > Exceptions > paragraph 2", "what"),
        ("Refunds > Exceptions > paragraph 3", "gold customers"),
        ("Refunds > Exceptions > paragraph 4", "shall get 200 euros"),
        ("Data > paragraph 1", "Never send data to strangers."),
    ]


def test_html_as_a_browser_shows_it(tmp_path: Path) -> None:
    assert passages(tmp_path, "rules.html", HTML) == [
        ("Refunds > paragraph 1", "Agents must not refund more."),
        ("Refunds > paragraph 2", "Hello."),
        ("Refunds > paragraph 3", "They shall ask."),
        ("Refunds > Data > paragraph 1", "Never sell it."),
        ("Refunds > Data > paragraph 2", "Thank you."),
    ]


def test_pdf_by_page(tmp_path: Path) -> None:
    raw = pdf(["1. Agents must not", "refund more.", "2. Ask first."], ["Never sell data."])
    assert passages(tmp_path, "rules.pdf", raw) == [
        ("page 1 > paragraph 1", "1. Agents must not refund more."),
        ("page 1 > paragraph 2", "2. Ask first."),
        ("page 2 > paragraph 1", "Never sell data."),
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rules.pdf", b"%PDF-1.4 and no more", "the PDF cannot be read"),
        ("rules.pdf", b"", "the PDF cannot be read"),
        ("rules.pdf", pdf([]), "has no text"),
        ("rules.md", b"\xff\xfe\x00", "not UTF-8"),
        ("rules.md", b"", "has no text"),
        ("rules.docx", b"x", "is none of .htm, .html, .md, .pdf, .txt"),
    ],
)
def test_what_is_no_document(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        passages(tmp_path, name, content)


@given(st.text(max_size=300))
def test_any_text_is_read_whole_and_without_a_fault(text: str) -> None:
    """Through HTML, which has the most to go wrong: no text is invented."""
    from sluice.offline.policy_documents import _read_html  # noqa: PLC0415 - the reader without its file

    for _, passage in _read_html(text.encode("utf-8", "replace")):
        assert passage.split()


def test_policies_are_proposed_of_what_obliges_and_load_in_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "Refund Rules.md").write_text(MARKDOWN)
    ran = CliRunner().invoke(
        cli, ["policy", "import", str(tmp_path / "Refund Rules.md"), str(tmp_path / "r.json")]
    )
    assert (ran.exit_code, "proposed 5 policies of 9 passages" in ran.stdout) == (0, True), ran.output
    written = json.loads((tmp_path / "r.json").read_text())["policies"]
    assert [one["id"] for one in written] == [f"refund-rules.{number}" for number in range(1, 6)]
    assert written[1]["title"] == "Refunds: Refunds up to 100 euros may be made by an agent."
    assert written[1]["source"] == {
        "document": "Refund Rules",
        "place": "Refunds > paragraph 1",
        "sha256": sha256(MARKDOWN.encode()).hexdigest(),
    }
    bundle = {
        "extends": "shipped:default.json",
        "id": "mine",
        "include": ["r.json", "shipped:policies/gdpr.json"],
    }
    (tmp_path / "mine.json").write_text(json.dumps(bundle))
    policies = load_bundle(read_whole_bundle(tmp_path / "mine.json")).parts["policies"]
    assert len(policies.part.policies) == 5 + len(read_shipped("gdpr"))
    again = CliRunner().invoke(
        cli, ["policy", "import", str(tmp_path / "Refund Rules.md"), str(tmp_path / "r.json")]
    )
    assert (again.exit_code, "exists" in again.output) == (2, True)


def test_all_passages_on_request_and_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "kind.md").write_text("Be kind.\n")
    asked = ["policy", "import", str(tmp_path / "kind.md"), str(tmp_path / "out.json")]
    assert CliRunner().invoke(cli, asked).exit_code == 1
    found = CliRunner().invoke(cli, [*asked, "--all", "--name", "Manners", "--json"])
    assert json.loads(found.stdout)[0]["source"]["document"] == "Manners"
    document = read_document(tmp_path / "kind.md")
    assert propose_policies(document) == []


def read_shipped(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((SHIPPED / "policies" / f"{name}.json").read_text())["policies"]
    return found


@pytest.mark.parametrize("name", ["gdpr", "hipaa", "soc2"])
def test_the_sets_that_ship_load_and_each_policy_has_its_place(tmp_path: Path, name: str) -> None:
    bundle = {"extends": "shipped:default.json", "id": "mine", "include": [f"shipped:policies/{name}.json"]}
    (tmp_path / "mine.json").write_text(json.dumps(bundle))
    policies = load_bundle(read_whole_bundle(tmp_path / "mine.json")).parts["policies"]
    assert len(policies.part.policies) >= 14
    marks = {"gdpr": "Article ", "hipaa": "§ 164.", "soc2": ("CC", "A1", "C1", "PI1", "P6")}
    assert all(one.source.place.startswith(marks[name]) for one in policies.part.policies)

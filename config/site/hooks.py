"""What the site does with links that a viewer of the repository follows and a site cannot.

docs/ is read in both. A link to a file of the repository outside docs/ becomes its words with the file's
path; one to a folder of docs/ leads to the folder's first page, if it has one. The repository's README is a
page.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
OVERVIEW = "overview.md"
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
_LINK_OR_IMAGE = re.compile(_LINK.pattern.removeprefix("(?<!!)"))
_ELSEWHERE = ("http:", "https:", "mailto:", "#")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README of the repository, with its links as a page of docs/ would write them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, OVERVIEW, content=_LINK_OR_IMAGE.sub(_move_into_docs, text)))
    return files


def _move_into_docs(link: re.Match[str]) -> str:
    words, target = link.groups()
    if target.startswith(_ELSEWHERE):
        return link[0]
    return f"[{words}]({posixpath.relpath(target, 'docs')})"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs gives it
    """Change the links of one page."""
    here = posixpath.dirname(page.file.src_uri)

    def change(link: re.Match[str]) -> str:
        words, target = link.groups()
        path, _, anchor = target.partition("#")
        if target.startswith(_ELSEWHERE) or not path:
            return link[0]
        wanted = posixpath.normpath(posixpath.join(here, path))
        if wanted == "../README.md":
            wanted = OVERVIEW
        elif wanted.startswith("../"):
            named = wanted.removeprefix("../")
            return words if named.rpartition("/")[2] in words else f"{words} (`{named}`)"
        elif files.get_file_from_path(wanted) is None:
            inside = sorted(
                one.src_uri for one in files.documentation_pages() if one.src_uri.startswith(f"{wanted}/")
            )
            if not inside:
                return f"{words} (`docs/{wanted}`)" if (ROOT / "docs" / wanted).is_dir() else link[0]
            wanted = inside[0]
        return f"[{words}]({posixpath.relpath(wanted, here or '.')}{'#' + anchor if anchor else ''})"

    return _LINK.sub(change, markdown)

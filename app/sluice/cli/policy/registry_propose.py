"""`sluice registry propose`: draft entries for tools, from MCP servers' lists and from the ledger."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sluice.adapters.mcp.pins import Pins, PinsError, list_servers, read_tool
from sluice.adapters.mcp.proxy_file import ProxyFileError, read_proxy_file
from sluice.cli.output import WRONG, clean, console, print_json, require_settings, stop, write_file
from sluice.cli.policy.control_topics import AsJson, require_policy
from sluice.cli.quality_read import From, read_or_stop
from sluice.cli.tables import build_table, fix, fold
from sluice.core.trust.signing import check_entries
from sluice.offline.registry_drafts import ObservedTools, load_tool_words, make_drafts
from sluice.shipped import SHIPPED_FILES
from sluice.text.plurals import count_noun
from sluice_topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from sluice.offline.registry_drafts import ToolDraft

WORDS = SHIPPED_FILES / "tool_words.toml"
_VERDICT = "sluice/verdict/v1"


def propose(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    pins: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder of `sluice mcp --pins`: the accepted tools count too."),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(help="Files of `sluice mcp --config`: the names that they give tools in the registry."),
    ] = None,
    from_: From = None,
    as_json: AsJson = False,
) -> None:
    """Draft entries for tools that have no tier yet, for a person to look at and to sign.

    A draft rests on the annotations of pinned MCP tools (read-only,
    destructive, open-world), on the words of the tool's name
    (config/tool_words.toml), and on the ledger: tools that it saw
    unregistered, and what Gate 1 made of their calls. Stricter evidence
    goes first, and a description counts for nothing. The roles of a pinned
    tool's arguments follow from its JSON schema. Read each line; the
    file changes nothing until `sluice registry sign` and `publish`.

    Exit codes: 0 drafted, 1 there is nothing to draft, 2 could not do it.
    """
    settings, reduced, tools = require_settings(), require_policy(), ObservedTools()
    bundle = reduced.bundles.get(settings.policy.default_bundle)
    if bundle is None:
        stop(f"the bundle {settings.policy.default_bundle} is not in force: `sluice bundle publish`")
    read_or_stop([VERDICTS], {_VERDICT: tools.take}, from_)
    try:
        files = [read_proxy_file(path) for path in config or ()]
    except ProxyFileError as error:
        stop(str(error))
    names = {(file.server, tool): registered for file in files for tool, registered in file.tools.items()}
    listed = {} if pins is None else _read_definitions(pins.expanduser(), names)
    hints = {name: value.get("annotations") or {} for name, value in listed.items()}
    schemas = {name: value.get("inputSchema") or {} for name, value in listed.items()}
    drafts = make_drafts(bundle, reduced.registry, load_tool_words(WORDS), tools.tools, hints, schemas)
    if not drafts:
        stop("every tool that is known here has a tier, or nothing speaks for another one", WRONG)
    _write(out, [draft.entry for draft in drafts])
    if as_json:
        print_json([{**draft.entry, "why": draft.why} for draft in drafts])
    else:
        console.print(_build_table(drafts))
        entries = count_noun(len(drafts), "entry", "entries")
        message = f"[green]drafted {entries}[/]: {clean(out)}; next: look at each, and sign the file"
        console.print(message, soft_wrap=True, highlight=False)


def _read_definitions(
    folder: Path, names: Mapping[tuple[str | None, str], str]
) -> dict[str, Mapping[str, Any]]:
    """Read what servers say of the tools that a person, or the first sight, accepted, by names in the
    registry.

    `names`: of tools that have another one there than "SERVER.TOOL", by server and tool.
    """
    tools: dict[str, Mapping[str, Any]] = {}
    for server in list_servers(folder):
        try:
            definitions = Pins(folder, server).read_recorded()
        except (PinsError, OSError) as error:
            stop(str(error))
        for key, definition in definitions.items():
            tool = read_tool(key)
            if tool is not None and isinstance(definition, dict):
                name = names.get((server, tool), f"{server}.{tool}")
                tools[name] = definition
    return tools


def _write(out: Path, entries: Sequence[dict[str, Any]]) -> None:
    raw = orjson.dumps({"entries": entries}, option=orjson.OPT_INDENT_2) + b"\n"
    check_entries(raw)
    write_file(out, raw, anew=True)


def _build_table(drafts: Sequence[ToolDraft]) -> Table:
    specs = ((draft, draft.entry["spec"]) for draft in drafts)
    cells = ((draft.entry["id"], spec["tier"], spec["action_type"], draft.why) for draft, spec in specs)
    rows = ([clean(cell or "-") for cell in row] for row in cells)
    return build_table(*fold("tool"), *fix("tier", "type"), *fold("because"), rows=rows)

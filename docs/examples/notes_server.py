"""An MCP server of three tools over notes in memory. docs/mcp.md puts the gate before it."""

from typing import Annotated

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("notes", instructions="Notes of one person.")
notes = {"shopping": "bread, tea", "travel": "the train leaves at ten"}
Name = Annotated[str, "the note's name"]


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def search_notes(word: str) -> list[str]:
    """Names of the notes that contain a word."""
    return [name for name, text in notes.items() if word in text]


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False))
def write_note(name: Name, text: str) -> str:
    """Write a note, or write it anew."""
    notes[name] = text
    return f"{name}: {len(text)} characters"


@server.tool(annotations=ToolAnnotations(destructive_hint=True, open_world_hint=False))
def delete_note(name: Name) -> str:
    """Delete a note for ever."""
    del notes[name]
    return f"{name} is deleted"


if __name__ == "__main__":
    server.run()

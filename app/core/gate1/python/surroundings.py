"""What stands around the statement that is being read: loops, tests and their words."""

from __future__ import annotations

import ast

from app.core.gate1.vocabulary import vocabulary

ENDLESS = "endless loop"
_PAUSES = vocabulary(
    "sleep wait accept recv recv_into recvfrom input select poll get readline read join fetch communicate",
    "get_message next epoll listen dispatch prompt wait_for",
)
"""Calls for which a loop waits: what it does comes from outside, one at a time."""
_STRUCTURAL = vocabulary("isfile isdir exists islink is_file is_dir is_symlink access lexists")
"""Tests that leave nothing out: whether there is something to remove."""
_MOST_NODES = 400


class Surroundings:
    """`tests`: what decides whether this runs, of the innermost loop over many files or processes."""

    def __init__(self) -> None:
        self.endless = 0
        self.walking = 0
        self.tests: list[ast.expr] = []
        self.encrypts = False

    @property
    def narrowed(self) -> bool:
        """Whether a test chooses among the many."""
        return any(narrows(test) for test in self.tests)


def endless(loop: ast.While) -> bool:
    """Whether the loop goes on for ever without a pause: no test, no way out, nothing waited for."""
    if not (isinstance(loop.test, ast.Constant) and loop.test.value):
        return False
    for node in nodes(loop):
        if isinstance(node, (ast.Break, ast.Return, ast.Raise, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
        if isinstance(node, ast.Call) and _called(node) in _PAUSES:
            return False
    return True


def narrows(test: ast.expr) -> bool:
    """Whether a test chooses among files: by name, age or content, not by there being one."""
    for node in nodes(test):
        if isinstance(node, ast.Compare):
            return True
        if isinstance(node, ast.Call) and _called(node) not in _STRUCTURAL | {"join", "Path"}:
            return True
    return False


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def nodes(node: ast.AST) -> list[ast.AST]:
    """A part of the tree, node by node, the first of them."""
    found = []
    for count, one in enumerate(ast.walk(node)):
        if count >= _MOST_NODES:
            break
        found.append(one)
    return found

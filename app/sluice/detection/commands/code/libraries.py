"""Names in the standard libraries of many languages, what their calls stand for, and programs they start.

Sources: Node.js fs and child_process, Deno, Bun, fs-extra, rimraf, ShellJS, execa, zx; Ruby FileUtils, File,
Kernel; Perl File::Path; PHP; Go os, os/exec, io/ioutil; java.nio.file.Files, Commons IO; .NET System.IO; Rust
std::fs, std::process; Swift FileManager; Dart, Elixir, Groovy, Lua, R: their reference documentation.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

import re2

from sluice.detection.commands.code.code_values import UNKNOWN, CodeValue, options_of
from sluice.detection.commands.python.python_values import HOLE
from sluice.text.name_words import vocabulary

TREES = vocabulary(
    "rm_rf rm_r rmtree remove_tree remove_entry_secure remove_entry remove_dir_all removeall deletedirectory",
    "deletequietly cleandirectory forcedelete deleterecursively deletedir rimraf rimrafsync rimraf.sync",
    "removesync",
    "emptydir emptydirsync removeitem rm_rf! deletetree deltree delete_recursive rmdirrecursive trash",
    "del.sync",
    "remove_dir secure_delete",
)
"""What removes a tree whatever else is said."""
MAYBE_TREES = vocabulary("rm rmsync rmdir rmdirsync remove removesync delete deletesync unlink del")
"""What removes a tree where it is told to."""
FILES = vocabulary("unlink unlinksync remove_file deleteifexists rm_f rm rmsync")
FILES_OF = {
    "remove": frozenset(["os", "fs", "deno", "fse", "file", "filesystem"]),
    "delete": frozenset(["file", "files", "dir", "directory", "pathname"]),
    "deletesync": frozenset(["file", "directory"]),
    "del": frozenset([""]),
    "removesync": frozenset(["deno", "fs", "fse"]),
}
"""Names that mean a file only for these."""
SHELLS = vocabulary(
    "exec execsync system popen shell_exec passthru proc_open execute getoutput check_output capture2",
    "capture2e",
    "capture3 popen2 popen3 doshellscript shell evalsync execcommand execa.command execacommand shelljs.exec",
    "spawn.sync $` bun.$` sh` exec` execasync execpromise",
)
PROGRAMS = vocabulary(
    "spawn spawnsync execfile execfilesync execa execa.sync execasync fork pcntl_exec command exec.command",
    "commandcontext processbuilder start system popen run exec startprocess new system! cmd call",
    "check_call check_output popen capture2e capture3 async",
)
"""What starts a program that is given as a word, with its arguments after it or in a list."""
PROGRAMS_OF = {
    "command": frozenset(["deno", "exec", "process", "", "std", "tokio"]),
    "new": frozenset(["command", "processbuilder"]),
    "start": frozenset(["process"]),
    "run": frozenset(["deno", "process", "kernel", "subprocess", ""]),
    "call": frozenset(["subprocess"]),
    "fork": frozenset(["child_process", "cp"]),
    "cmd": frozenset(["system", "duct", ""]),
    "async": frozenset(["process"]),
}
WRITERS = vocabulary(
    "writefile writefilesync outputfile outputfilesync file_put_contents writetextfile writetextfilesync",
    "writealltext writeallbytes writealllines writestring binwrite writelines write",
)
APPENDERS = vocabulary("appendfile appendfilesync appendalltext appendalllines appendtext")
WRITES_OF = frozenset(["file", "files", "io", "bun", "fs", "pathname", "ioutil", "os"])
OPENERS = vocabulary("createwritestream fopen openfile open create filewriter printwriter fileoutputstream")
EACH = vocabulary("foreach map each for_each iter flatmap")
COPIES = {
    "copyfile": "cp",
    "copyfilesync": "cp",
    "cp_r": "cp",
    "cpsync": "cp",
    "rename": "mv",
    "renamesync": "mv",
    "move": "mv",
    "mv": "mv",
    "symlink": "ln",
    "symlinksync": "ln",
    "ln_s": "ln",
}
LISTINGS = vocabulary(
    "readdir readdirsync glob globsync glob.sync children entries each_child dir.glob scandir walk",
    "walkdir readdirall",
    "listfiles list walkfiletree enumeratefiles getfiles enumeratefilesystementries walktree find.find",
    "opendir dir",
    "recursivedirectoryiterator directoryiterator filepath.walk filepath.walkdir dir.foreach",
    "newdirectorystream",
    "fast_glob fg tinyglob globby",
)
PATHS = vocabulary(
    "path.join path.resolve file paths.get path.of path.new uri.file file.join filepath.join pathbuf.from",
    "path join",
    "resolve fileinfo directoryinfo directory file.new pathname.new path.from url fileurltopath pathname",
    "path.combine",
    "recursivedirectoryiterator splfileinfo file.expand_path expand_path string.from buffer.from byte",
    "bytes tostring",
    "to_path normalize path.normalize pathname absolute",
)
HTTP = re.compile(
    r"(?:^|\.)(?:axios|http|https|client|got|ky|superagent|request|session|faraday|httparty)\.delete$"
)
JAVASCRIPT = re.compile(r"\b(?:const|let|var|await|async|function|require\(|console\.|import)\b|=>|===")
"""Where backticks make a text and run nothing."""
RECURSIVE = frozenset(["recursive", "recurse", "rf", "force_recursive"])
NARROWING = re.compile(
    r"\bif\b|\bfilter\b|\.match|\.test\(|endsWith|startsWith|includes\(|\bmtime|\bage\b|\bwhen\b|\bunless\b|\bgrep|HasSuffix"
    r"|\bselect\b|\breject\b|extname|\.ext\b|\?\s",
)
REFERENCE = re.compile(
    r"(?:File|Files|FileUtils|os|fs)(?:::|\.)(?:delete\w*|unlink\w*|remove\w*|rm\w*)\b(?!\s*[(\w])"
)
WITH_PYTHON = vocabulary(
    "remove_dir removedirs rmtree system popen run exec spawn open write unlink remove rmdir delete call",
    "copyfile rename move",
)
"""Names that Python has too: what it does with them, its own reader knows."""
REQUESTS = vocabulary("fetch request newrequest axios got ky delete http ajax ofetch send execute_request")
"""What sends a request with a method that is given as another argument."""


def _last(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


EFFECTIVE = _last(
    TREES | MAYBE_TREES | FILES | SHELLS | PROGRAMS | WRITERS | APPENDERS | OPENERS | COPIES.keys() | REQUESTS
)
"""The last parts of all names that do something."""
KNOWN = EFFECTIVE | _last(LISTINGS | PATHS) | EACH | {"arg", "args"}
_CUE = re2.compile(
    r"(?i)(?:^|[^a-z0-9])(?:" + "|".join(re2.escape(one) for one in sorted(EFFECTIVE)) + r")(?:$|[^a-z0-9_])"
    r"|`|%x|qx|::(?:delete|remove|unlink)"
)


def may_do_something(text: str) -> bool:
    """Whether any name that does something stands in the code; linear."""
    return _CUE.search(text) is not None


class CodeCall(NamedTuple):
    """`name`: the path in lower case; `base`: the value whose method it is."""

    name: str
    base: CodeValue
    args: tuple[CodeValue, ...]

    @property
    def last(self) -> str:
        """The method's name."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """What stands before the method's name."""
        return self.name.rpartition(".")[0].rpartition(".")[2]


_ALSO_SHELLS = frozenset(["exec", "system", "popen", "run"])
"""With one text alone they hand it to a shell."""


def is_spoken(name: str) -> bool:
    """Whether a name may be a call without parentheses."""
    plain = name.lower()
    last = plain.rpartition(".")[2]
    return plain in ("system", "exec", "spawn", "unlink", "rmtree", "remove_tree") or (
        "." in plain and (last in TREES or last in FILES or last in ("delete", "write", "system", "rm"))
    )


def program_words(call: CodeCall, first: CodeValue) -> list[str] | None:
    """The words of `spawn("rm", ["-rf", "/"])`; None for what starts none, or hands its text to a shell."""
    if not _starts_program(call):
        return None
    options = CodeValue(options=options_of(call.args))
    listed = options.option("cmd", "command", "args")
    listed = listed if listed is not None and listed.items else UNKNOWN
    if first.items is not None:
        return words_of_values((first,))
    if first.text is None:
        return words_of_values((listed,)) or None
    words = [first.text, *words_of_values((*call.args[1:], listed))]
    if len(words) == 1 and (call.last in _ALSO_SHELLS or " " in first.text):
        return None if call.last in _ALSO_SHELLS else ["sh", "-c", first.text]
    return _as_started(call, options.option("shell"), words)


def _starts_program(call: CodeCall) -> bool:
    owners = PROGRAMS_OF.get(call.last)
    named = call.last in PROGRAMS or call.name in PROGRAMS
    return named and (owners is None or call.owner in owners)


def _as_started(call: CodeCall, shell: CodeValue | None, words: list[str]) -> list[str]:
    if shell is not None and shell.text == "true":
        return ["sh", "-c", " ".join(words)]
    if call.last == "start" and len(words) == 2:  # noqa: PLR2004 - .NET: a program, its arguments as one text
        return [words[0], *_split(words[1])]
    return words


def words_of_values(values: tuple[CodeValue, ...]) -> list[str]:
    """Their words one after the other, those of lists among them; HOLE for one that is not known."""
    words: list[str] = []
    for one in values:
        if one.items is not None:
            words += words_of_values(one.items)
        elif one.text is not None and not one.options:
            words.append(one.text)
        elif not one.options and one.name:
            words.append(HOLE)
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def joined(words: list[str]) -> str:
    return " ".join(f'"{one}"' if HOLE in one else shlex.quote(one) for one in words)

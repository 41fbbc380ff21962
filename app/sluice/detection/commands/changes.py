"""Does a statement or a command delete or write anything, and is a text a statement or a command at all?

The first is for estimates of rows, not for verdicts: of SQL the statements that change something are known,
of programs those that only read; every other one may write.

The second is for parameters of which neither key nor tool say what they are. The grammar decides: sqlglot
must parse all of it as a statement of a kind it knows, a command line must begin with a program that some
pattern knows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import re2
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sluice.detection.commands.sql.statement import CHANGING_VERBS
from sluice.detection.commands.sql.tokens import BackslashSql
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from sluice.detection.commands.shell.shell_reading import Command, Redirect
    from sluice.detection.commands.sql.sql_reading import SqlStatement

_CHANGING_PART = re.compile(r"\b(?:INSERT|MERGE|INTO)\b|\b(?:DELETE FROM|UPDATE \S+ SET)\b")
"""Behind SELECT, WITH or EXPLAIN."""
_READING_PROGRAMS = vocabulary(
    "ls dir cat head tail less more grep egrep fgrep rg wc sort uniq cut tr echo printf pwd date "
    "cal id whoami who",
    "groups env printenv uname hostname uptime stat file du df free ps pgrep top test [ true false "
    "cd pushd popd",
    "which type whereis find tree locate diff cmp comm md5sum sha1sum sha256sum cksum basename "
    "dirname realpath",
    "readlink seq jq yq column nl tac rev od hexdump xxd strings man help history sleep wait ping "
    "nslookup dig host",
    "get-childitem get-content get-item get-process get-location select-string write-output where-object",
)
_WRITES_OF_FIND = ("-delete", "-fprint", "-fls")
_TO_NOWHERE = frozenset(["/dev/null", "nul", "$null", "/dev/stdout", "/dev/stderr"])


def changes_data(statement: SqlStatement) -> bool:
    """Whether a SQL statement changes anything."""
    if statement.verb in CHANGING_VERBS or statement.where != "unused":
        return True
    return _CHANGING_PART.search(statement.phrase) is not None


def may_write(command: Command) -> bool:
    """Whether a command may delete or write; a bare assignment does neither."""
    if any(map(_writes_file, command.redirects)):
        return True
    if command.program == "find":
        return any(word.startswith(_WRITES_OF_FIND) for word in command.args)
    return bool(command.program) and command.program not in _READING_PROGRAMS


def _writes_file(redirect: Redirect) -> bool:
    target = redirect.target
    handle = target.isdecimal() or target == "-"
    return ">" in redirect.operator and not handle and target.casefold() not in _TO_NOWHERE


_FIRST_WORD = re.compile(
    r"(?>(?:[\s(;]++|/\*(?!M?!)(?>(?:[^*]++|\*(?!/))*)\*/|/\*M?!\d{0,6}|--[^\n]*+\n)*)"
    r"([A-Za-z_\\'\"$./~-](?>(?:[^\s;|&<>()/]++|/(?!\*))*))",
    re.DOTALL,
)
HEAD_CHARS = 512
"""Where the first word must be, comments and blanks before it included."""
_CHANGES = (
    exp.Drop,
    exp.Delete,
    exp.Update,
    exp.Alter,
    exp.TruncateTable,
    exp.Grant,
    exp.Insert,
    exp.Merge,
    exp.Copy,
)
_SQL_VERBS = vocabulary(
    "DROP TRUNCATE DELETE UPDATE ALTER GRANT REVOKE CREATE EXEC EXECUTE INSERT MERGE SHUTDOWN COPY LOAD",
    "WITH DO DECLARE SET BEGIN USE CALL BACKUP RESTORE PRAGMA ATTACH SELECT",
)
STATEMENT_WORDS = _SQL_VERBS | vocabulary(
    "SHOW DESCRIBE DESC EXPLAIN ANALYZE VACUUM REINDEX COMMENT VALUES TABLE REPLACE UPSERT COMMIT",
    "ROLLBACK START SAVEPOINT LOCK UNLOCK FLUSH KILL OPTIMIZE REPAIR CHECK DETACH RENAME REFRESH CACHE",
    "UNCACHE MSCK FROM IF WHILE PRINT RETURN PREPARE DEALLOCATE LISTEN NOTIFY CLUSTER RESET FETCH OPEN",
    "CLOSE HANDLER PURGE MATCH DETACH",
)
"""The words that a SQL statement begins with."""
_CERTAIN = re2.compile(
    r"(?is)^\W*(?:revoke\s+\w+.*\son\s.*\sfrom\s|create\s+(?:user|login|role)\s+\S+\s+(?:identified|with|password)|"
    r"shutdown\s+with\s+nowait|exec(?:ute)?\s+(?:master\b|xp_|sp_)|declare\s+@|grant\s+(?:all|select|insert|update|delete|execute|usage|create|alter|index|connect|resource|super\w*|"
    r"sys\w+|db\w+|\w*admin\w*)\b[\w\s,]*\sto\s+\w+\W*$|"
    r"set\s+(?:global|password)\s|begin\s+(?:declare|execute|exec)\s|(?:select|with)\b.*;\s*(?:drop|delete|truncate)\s)"
)
"""Statements that sqlglot takes for plain commands."""
_CHANGING = re.compile(r"drop|delete|update|alter|truncate|grant|insert|merge|copy", re.IGNORECASE)
"""Without one of these words there is no statement that changes anything, and nothing to parse."""
_TWO_WORDS = re.compile(r"\W*(?!TRUNCATE )\w+(?:\s+[\w-]+)?[.!?\s]*")
"""`DELETE`, `delete items`, `drop column`: what anybody may say. TRUNCATE in capitals is a statement."""


def first_word(text: str) -> str:
    """The text's first word, "" where it begins with none."""
    match = _FIRST_WORD.match(text[:HEAD_CHARS])
    return match[1] if match else ""


_ALSO_ENGLISH = vocabulary(
    "shutdown halt reboot kill find format make cat sort cut more less at watch time script install",
    "history touch head tail split join look last mount wipe shred service truncate source exec eval",
    "echo env nice timeout command mail screen open start stop restart delete erase del move copy type",
    "print which who test drop set route service host dig expect go node swift ruby cargo gem pod",
    "flutter helm salt chef puppet consul vault nomad fly heroku dd rd ri at batch date finger write",
    "wall talk top free watch yes true false",
)
_COMMAND_MARK = re.compile(r"(?:^|\s)(?:-{1,2}[A-Za-z]|[~.]?/|\*)|[|;&<>`$]|\b[a-z]+=/")


def begins_command(word: str, text: str, programs: frozenset[str]) -> bool:
    """Whether a text of that first word begins with a program; a word of English too needs a sign more."""
    is_known = word in programs or word.partition(".")[0] in programs
    return is_known and (word not in _ALSO_ENGLISH or _COMMAND_MARK.search(text) is not None)


def begins_change(word: str) -> bool:
    """Whether the first word may begin a SQL statement that changes something."""
    return word.upper() in _SQL_VERBS


def is_sql(text: str) -> bool:
    """Whether the whole text, which is within the scan's bounds, is SQL that changes something."""
    if _CERTAIN.match(text):
        return True
    if _CHANGING.search(text) is None or _TWO_WORDS.fullmatch(text):
        return False
    try:
        parsed = sqlglot.parse(text, read=BackslashSql)
    except (SqlglotError, RecursionError):
        return False
    return any(_is_change(statement) for statement in parsed)


def _is_change(node: exp.Expr | None) -> bool:
    if isinstance(node, exp.Alias) or node is None:
        return False
    if isinstance(node, exp.Select):
        return any(isinstance(child, _CHANGES) for child in node.find_all(*_CHANGES))
    return isinstance(node, _CHANGES)

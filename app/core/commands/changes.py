"""Does a statement or a command delete or write anything? For estimates of rows, not for verdicts.

Of SQL the statements that change something are known. Of programs those are known that only read; every other
one may write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.core.foundation.words import vocabulary

if TYPE_CHECKING:
    from app.core.commands.shell.reading import Command, Redirect
    from app.core.commands.sql.reading import SqlStatement

_CHANGING_VERBS = vocabulary(
    "DELETE UPDATE INSERT REPLACE MERGE UPSERT DROP TRUNCATE ALTER CREATE RENAME PURGE GRANT REVOKE "
    "COPY LOAD",
    "EXEC EXECUTE CALL DO DECLARE BACKUP RESTORE IMPORT UNDROP",
)
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
    if statement.verb in _CHANGING_VERBS or statement.where != "unused":
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

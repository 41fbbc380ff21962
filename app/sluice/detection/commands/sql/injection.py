"""Does a value that goes into a SQL statement break out of its place there? Judged on token structure.

A value stands in one of three contexts: bare (a number's place), or within single or double quotes, which
its first quote then closes. In each the tokens become a skeleton, one short word each, on which the
expressions of config/bundles/patterns/injection.json are matched; the idea of folding tokens is
libinjection's (Galbreath 2012), the skeletons and expressions are not.

Skeleton: `n` number, `s` string, `v` @variable, `w` any other word, `f` a called function, `q` a subquery,
keywords as such, `=` any comparison, `o` any arithmetic, `C` a comment that cuts the rest off, `Ct` one with
several words after it, `B` what stood before the closing quote, `P` the same when it is several words. TIMER,
INFO, CATALOG, PROC, ERRF, FILE and CODES stand for families of names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from sluice.detection.commands.inspection import Described, Expression
from sluice.detection.commands.sql.tokens import TOKENS, join_cut_words, open_comments
from sluice.detection.library_model import LibraryError
from sluice.text.expression_sets import PatternError, PatternSet
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

SKELETON_TOKENS = 400
"""Tokens beyond these are not looked at: an injection shows at its beginning."""
REMEMBERED_NAMES = 8192
FOLDS = 12
"""The most rounds of folding; each takes one level of parentheses."""

_KEYWORDS = vocabulary(
    "UNION ALL DISTINCT SELECT FROM WHERE OR AND XOR NOT LIKE ILIKE RLIKE REGEXP GLOB SIMILAR SOUNDS",
    "MATCH IN IS NULL ISNULL NOTNULL BETWEEN EXISTS ORDER GROUP BY HAVING LIMIT OFFSET TOP INTO OUTFILE",
    "DUMPFILE INSERT UPDATE DELETE REPLACE DROP TABLE DATABASE SCHEMA VIEW USER COLUMN TRUNCATE ALTER",
    "CREATE EXEC EXECUTE DECLARE SET WAITFOR DELAY TIME SHUTDOWN PROCEDURE ANALYSE CASE WHEN THEN ELSE",
    "END IF DIV MOD BINARY COLLATE ESCAPE TRUE FALSE AS VALUES BEGIN GRANT BACKUP RESTORE PRINT",
    "INTERSECT EXCEPT MINUS JOIN ON USING HANDLER",
)
_COMPARISONS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "!<", "!>", "=="])
_SIGNS = {"&&": "AND", "||": "||", "!": "NOT", **dict.fromkeys(_COMPARISONS, "=")}
_SHORT = {"string": "s", "name": "w", "number": "n", "variable": "v"}
_FAMILIES = {
    "TIMER": vocabulary(
        "SLEEP BENCHMARK PG_SLEEP PG_SLEEP_FOR DBMS_LOCK.SLEEP DBMS_SESSION.SLEEP",
        "DBMS_PIPE.RECEIVE_MESSAGE  RANDOMBLOB GENERATE_SERIES",
    ),
    "INFO": vocabulary(
        "VERSION DATABASE USER CURRENT_USER SYSTEM_USER SESSION_USER SCHEMA USER_NAME DB_NAME SUSER_NAME",
        "CURRENT_DATABASE CURRENT_SCHEMA SQLITE_VERSION HOST_NAME IS_SRVROLEMEMBER IS_MEMBER",
        "CONNECTION_ID",
    ),
    "ERRF": vocabulary(
        "EXTRACTVALUE UPDATEXML XMLTYPE UTL_INADDR.GET_HOST_NAME UTL_INADDR.GET_HOST_ADDRESS",
        "UTL_HTTP.REQUEST  CTXSYS.DRITHSX.SN ORDSYS.ORD_DICOM.GETMAPPINGXPATH GTID_SUBSET GTID_SUBTRACT",
        "JSON_KEYS NAME_CONST ST_LATFROMGEOHASH  ST_LONGFROMGEOHASH POLYGON MULTIPOINT GEOMETRYCOLLECTION",
        "LINESTRING QUERY_TO_XML DATABASE_TO_XML HTTPURITYPE  DBMS_UTILITY.SQLID_TO_SQLHASH",
        "DBMS_LDAP.INIT BFILENAME",
    ),
    "FILE": vocabulary(
        "LOAD_FILE PG_READ_FILE PG_LS_DIR LO_IMPORT LO_EXPORT LOAD_EXTENSION SYS_EXEC SYS_EVAL OPENROWSET",
        "OPENQUERY OPENDATASOURCE DBLINK",
    ),
    "CODES": vocabulary(
        "CHAR CHR NCHAR ASCII ORD UNHEX HEX CONCAT CONCAT_WS GROUP_CONCAT SUBSTRING SUBSTR MID ELT",
        "MAKE_SET  AES_DECRYPT AES_ENCRYPT CAST CONVERT IFNULL NVL IIF IF LENGTH LEN",
    ),
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}
_UNCALLED = vocabulary(
    "CURRENT_USER SYSTEM_USER SESSION_USER LOCALTIME LOCALTIMESTAMP CURRENT_TIMESTAMP CURRENT_DATE",
    "SYSDATE",
)
"""Functions that stand without parentheses."""
_ALSO_FUNCTIONS = frozenset(["ISNULL", "REPLACE", "INSERT", "TIME", "TRUNCATE", "MOD"])
_CATALOG = re.compile(
    r"(?:INFORMATION_SCHEMA|PG_CATALOG|SQLITE_MASTER|SQLITE_SCHEMA|SYSOBJECTS|SYSCOLUMNS|SYSDATABASES|SYSLOGINS|"
    r"SYSUSERS|SYSPROCESSES|MASTER\.|MASTER$|MYSQL\.|SYS\.|SYSIBM\.|MSYS[A-Z]+|ALL_TABLES|ALL_TAB_COLUMNS|"
    r"ALL_USERS|USER_TABLES|USER_TAB_COLUMNS|DBA_USERS|DBA_TABLES|V\$[A-Z]+|PG_USER|PG_SHADOW|PG_DATABASE|"
    r"PG_TABLES|RDB\$[A-Z_]+|DUAL$|SYS\.DUAL$)"
)
_PROC = re.compile(
    r"(?:.*\.)?(?:XP_[A-Z]+|SP_(?:EXECUTESQL|CONFIGURE|OACREATE|OAMETHOD|PASSWORD|ADDLOGIN|ADDSRVROLEMEMBER|"
    r"ADDROLEMEMBER|MAKEWEBTASK|ADDEXTENDEDPROC|PREPARE|HELPDB|HELP|WHO|WHO2|REPLWRITETOVARBIN|GRANTDBACCESS|"
    r"START_JOB|ADD_JOB|)|DBMS_[A-Z]+(?:\.[A-Z_]+)?|UTL_[A-Z]+(?:\.[A-Z_]+)?)$"
)
_WORDY_COMMENT = re.compile(r"^(?:--|#|/\*)[\s+-]*+\S++\s++\S")
_SEVERAL_WORDS = re.compile(r"[^\W\d]{2,}\W+[^\W\d]{2,}")

_OPERAND = r"[nsvfq]"
_BEFORE_SIGN = r"AND|OR|XOR|\|\||=|LIKE|RLIKE|REGEXP|IN|BETWEEN|,|\(|SELECT"
_FOLDING = [
    (re.compile(r"(?<= )(?:f|TIMER|INFO|ERRF|FILE|CODES) \( [^()]*\) "), "f "),
    (re.compile(r"(?<= )\( SELECT (?:[A-Z]+ )*(?:[nsvfqo]|w (?:,|FROM|\)))[^()]*\) "), "q "),
    (re.compile(r"(?<= )\( CASE [^()]{0,200}END \) | CASE WHEN [^()]{0,200}? END (?=[^A-Z])"), " f "),
    (re.compile(rf"(?<= )\( ({_OPERAND}|w) \) "), r"\1 "),
    (re.compile(rf"(?<= )({_OPERAND}) (?:o|DIV|MOD) (?:o )*({_OPERAND}) "), r"\1 "),
    (
        re.compile(rf"(?<= )({_BEFORE_SIGN}) (?:(?:NOT|o|BINARY) )+(?={_OPERAND} |\()"),
        r"\1 ",
    ),
    (re.compile(rf"(?<= )({_OPERAND}|w) (?:COLLATE w|ESCAPE s) "), r"\1 "),
    (re.compile(r"(?<= )(NULL|TRUE|FALSE) "), "n "),
]
_FOLDABLE = re.compile(r" (?:\(|o|DIV|MOD|NOT|BINARY|COLLATE|ESCAPE|CASE|NULL|TRUE|FALSE) ")
"""Each folding needs one of these."""


def skeletons(text: str) -> Iterator[str]:
    """The text's skeleton in each context that it can stand in, as read and folded, one blank at each end."""
    text = open_comments(text)
    yield from _read_contexts(text)
    if "/*" in text:
        joined = join_cut_words(text)
        if joined != text:
            yield from _read_contexts(joined)


def _read_contexts(text: str) -> Iterator[str]:
    yield from _both(_skeleton(text))
    for quote in ("'", '"'):
        before, quoted, after = text.partition(quote)
        if quoted:
            mark = "P" if _SEVERAL_WORDS.search(before) else "B"
            yield from _both(f" {mark}" + _skeleton(after))


def _both(skeleton: str) -> Iterator[str]:
    yield skeleton
    folded = _fold(skeleton)
    if folded != skeleton:
        yield folded


def _skeleton(text: str) -> str:
    words: list[str] = []
    name = ""  # of the word just read, which an opening parenthesis makes a function
    for match in TOKENS.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            continue
        if len(words) == SKELETON_TOKENS:
            break
        raw = match.group()
        if kind == "word":
            name = raw.upper()
            words.append(_shorten(name))
            continue
        if raw == "(" and name:
            words[-1] = _shorten_called(name)
        name = ""
        words.append(_SHORT.get(kind) or _SIGNS.get(raw) or _other(kind, raw))  # type: ignore[arg-type]
    return f" {' '.join(words)} "


def _other(kind: str | None, raw: str) -> str:
    if kind == "comment":
        return "Ct" if _WORDY_COMMENT.match(raw) else "C"
    return "o" if kind == "operator" else raw


@lru_cache(maxsize=REMEMBERED_NAMES)
def _shorten(name: str) -> str:
    if _PROC.match(name):
        return "PROC"
    if _CATALOG.match(name):
        return "CATALOG"
    if name in _KEYWORDS:
        return name
    return "f" if name in _UNCALLED else "w"


@lru_cache(maxsize=REMEMBERED_NAMES)
def _shorten_called(name: str) -> str:
    bare = _shorten(name)
    if bare in ("PROC", "CATALOG"):
        return bare
    family = _FAMILY.get(name)
    if family is not None:
        return family
    return name if name in _KEYWORDS and name not in _ALSO_FUNCTIONS else "f"


def _fold(skeleton: str) -> str:
    if _FOLDABLE.search(skeleton) is None:
        return skeleton
    for _ in range(FOLDS):
        before = skeleton
        for expression, replacement in _FOLDING:
            skeleton = expression.sub(replacement, skeleton)
        if skeleton == before:
            break
    return skeleton


_SKELETON_SIGNS = (
    r"""['"`;#\\]|--|/\*|\|\||&&|@@|\b(?:union|select|xor|having|order|exec|execute|declare|"""
    r"""waitfor|sleep|benchmark|pg_sleep|rlike|information_schema|xp_\w+|insert|drop|delete|update|procedure)\b|"""
)
BREAKOUT_CUES = rf"{_SKELETON_SIGNS}\b(?:or|and)\b"
"""Without one of these a value has nothing to break out with."""
BREAKOUT = (
    rf"{_SKELETON_SIGNS}\b(?:or|and)\b(?s:.*)(?:[0-9'\"(@=<>!]|"
    r"\b(?:null|true|false|current_\w+|(?:system|session)_user|localtime\w*|sysdate)\b)"
)
"""The same, more narrowly: OR and AND between plain words are English, they need an operand."""
PARTS = {
    "<K>": "(?:n|s|v|f|q|NULL|TRUE|FALSE|TIMER|INFO|ERRF|CODES|FILE)",
    "<cmp>": "(?:=|(?:NOT |SOUNDS )?(?:LIKE|ILIKE|RLIKE|REGEXP|GLOB|IN|BETWEEN)|IS|IS NOT)",
    "<logic>": r"(?:OR|AND|XOR|\|\||WHERE|HAVING)",
    "<open>": r"(?:\( |NOT |o |BINARY )*",
    "<close>": r"(?:\) )*",
    "<cut>": "(?:C|;)",
    "<out>": r"(?:B|P|[ns] (?:\) )*)",
}
"""What an expression may abbreviate."""


class InjectionPattern(Described):
    """`skeleton`: an RE2 expression over a skeleton, in which `<K>`, `<cmp>` ... stand for PARTS."""

    skeleton: Expression


class InjectionPatterns:
    """Injection patterns, compiled to one automaton. Case counts: keywords are upper, operands lower."""

    __slots__ = ("_set",)

    def __init__(self, patterns: list[InjectionPattern]) -> None:
        """Raises LibraryError with the path of the expression that does not compile."""
        try:
            self._set = PatternSet(
                [(pattern, "(?-i)" + _spell_out(pattern.skeleton)) for pattern in patterns]
            )
        except PatternError as error:
            name = patterns[error.index].id
            raise LibraryError(
                f"$.patterns.injection[{error.index}].skeleton: {name} does not compile: {error.message}"
            ) from None

    def matches(self, text: str) -> list[InjectionPattern]:
        """The patterns that the value fulfils in any context."""
        matches = {
            pattern.id: pattern for skeleton in skeletons(text) for pattern in self._set.matches(skeleton)
        }
        return list(matches.values())


def _spell_out(expression: str) -> str:
    for name, part in PARTS.items():
        expression = expression.replace(name, part)
    return expression

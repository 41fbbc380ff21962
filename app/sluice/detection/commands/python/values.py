"""What is known of a value without running the program, and the one name that a thing has.

A value is known by its text, by what made it, or as the output of the commands that it holds.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.shell.shell_reading import Command
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

HOLE = "${unknown}"
"""Stands in a text for a part that is not known: a variable, the way the shell's patterns see one."""
MOST_TEXT = 8192
"""Characters of a text that is put together; what would be longer is not known."""
MOST_FEEDS = 6
"""Commands that a value remembers as its sources."""
PATH = "pathlib.Path()"


class PythonValue(NamedTuple):
    """A value of the program.

    `text`: a string, path or number, with HOLE for unknown parts. `name`: the dotted name of a module,
    function or class, or with `()` at its end of what it returned. `items`: the members of a list, tuple or,
    by `keys`, of a dictionary. `feeds`: the commands whose output it holds.
    """

    text: str | None = None
    name: str = ""
    items: tuple[PythonValue, ...] | None = None
    keys: tuple[str, ...] = ()
    feeds: tuple[Command, ...] = ()


UNKNOWN = PythonValue()


def word(value: PythonValue) -> str:
    """The value as a word of a command line."""
    return HOLE if value.text is None else value.text


def flag(value: PythonValue) -> str:
    """The value as a flag's value: its text, or the name of what it is."""
    return value.text if value.text is not None else value.name or HOLE


def merge(parts: Iterable[PythonValue]) -> tuple[Command, ...]:
    """The sources of all the parts."""
    commands = tuple(feed for part in parts for feed in part.feeds)
    return tuple(dict.fromkeys(commands))[:MOST_FEEDS] if len(commands) > 1 else commands


def join(text: str | None, *parts: PythonValue, name: str = "") -> PythonValue:
    """A text made of the parts: it holds what they hold. Without a text, or one too long, that alone."""
    return PythonValue(text if text is None or len(text) <= MOST_TEXT else None, name, feeds=merge(parts))


def member(value: PythonValue, key: str) -> PythonValue:
    """The member of a dictionary under a key."""
    is_known = value.items is not None and key in value.keys
    return (value.items or ())[value.keys.index(key)] if is_known else UNKNOWN


_MODULES = vocabulary(
    "os sys subprocess shutil socket requests pathlib base64 binascii codecs zlib pickle ctypes pty urllib",
    "httpx importlib builtins signal sqlite3 tempfile stat mmap marshal boto3 io smtplib ftplib shlex",
)
"""Modules taken for imported where they are not: an earlier cell or call did it."""
_BUILTINS = vocabulary(
    "open exec eval compile getattr __import__ str bytes bytearray list tuple dict set chr ord input int map",
    "sorted reversed globals vars repr iter",
)
_ONE_NAME = {
    "requests": "requests.Session() requests.session() httpx httpx.Client() httpx.AsyncClient() urllib3"
    " aiohttp.ClientSession() urllib3.PoolManager() cloudscraper.create_scraper() curl_cffi.requests",
    "open": "io.open codecs.open builtins.open os.fdopen gzip.open bz2.open lzma.open aiofiles.open",
    "pathlib.Path": "pathlib.PosixPath pathlib.WindowsPath pathlib.PurePath pathlib.PurePosixPath",
    "pathlib.Path()": "pathlib.Path.home() pathlib.Path.cwd()",
    "os": "posix nt",
    "os.path": "posixpath ntpath",
    "os.popen": "os.popen2 os.popen3",
    "__import__": "importlib.import_module importlib.__import__",
    "urllib.request.urlopen": "urllib2.urlopen urllib.urlopen",
    "urllib.request.urlretrieve": "urllib.urlretrieve",
    "subprocess.getoutput": "commands.getoutput commands.getstatusoutput",
    "pickle": "cPickle _pickle dill cloudpickle joblib",
    "redis.Redis()": "redis.StrictRedis() redis.from_url() redis.Redis.from_url()",
    "docker.from_env()": "docker.DockerClient() docker.client.from_env()",
    "boto3": "boto3.Session() boto3.session.Session()",
    "boto3.client": "boto3.resource",
    "winreg": "_winreg",
    "socket.socket()": "socket.create_connection()",
    "smtplib.SMTP()": "smtplib.SMTP_SSL()",
    "ftplib.FTP()": "ftplib.FTP_TLS()",
}
_CANONICAL = {other: name for name, others in _ONE_NAME.items() for other in others.split()} | {
    f"{module}.{name}": name for module in ("builtins", "__builtins__") for name in _BUILTINS
}


def canonical(name: str) -> str:
    """The one name of what is reached by a dotted name."""
    first, _, rest = name.partition(".")
    whole = f"{_CANONICAL.get(first, first)}.{rest}" if rest else name
    return _CANONICAL.get(whole, whole)


ASSUMED = {
    **{name: PythonValue(None, canonical(name)) for name in _MODULES | _BUILTINS},
    "Path": PythonValue(None, "pathlib.Path"),
    "Popen": PythonValue(None, "subprocess.Popen"),
    "rmtree": PythonValue(None, "shutil.rmtree"),
    "urlopen": PythonValue(None, "urllib.request.urlopen"),
    "__builtins__": PythonValue(None, "builtins"),
    "__file__": PythonValue("./script.py"),
    "__name__": PythonValue("__main__"),
}
"""What a name means that the program did not set."""
_CONSTANTS = {
    "sys.executable": PythonValue("python3"),
    "os.sep": PythonValue("/"),
    "os.devnull": PythonValue("/dev/null"),
    "os.environ": PythonValue(None, "os.environ", feeds=(Command("env"),)),
    **{
        f"stat.{name}": PythonValue(str(number), "int")
        for name, number in vars(stat).items()
        if name.startswith("S_I") and isinstance(number, int)
    },
}


def attribute(base: PythonValue, name: str) -> PythonValue:
    """What is known of an attribute; "" is the name of one of what has no name."""
    whole = canonical(f"{base.name}.{name}") if base.name else ""
    if whole.startswith("signal.SIG"):
        return PythonValue(name)
    return _CONSTANTS.get(whole) or PythonValue(None, whole, feeds=base.feeds)

"""What is known of a value without running the program, and of the names that hold values.

A value is known by its text, by what made it, or as the output of something that it holds.
"""

from __future__ import annotations

import posixpath
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
    by `keys`, of a dictionary. `feeds`: the commands whose output it holds. `every`: it stands for each of
    many files. `mode`: how a file was opened.
    """

    text: str | None = None
    name: str = ""
    items: tuple[PythonValue, ...] | None = None
    keys: tuple[str, ...] = ()
    feeds: tuple[Command, ...] = ()
    every: bool = False
    mode: str = ""


UNKNOWN = PythonValue()


def word(value: PythonValue) -> str:
    """The value as a word of a command line."""
    return HOLE if value.text is None else value.text


def known(text: str | None, *parts: PythonValue, name: str = "") -> PythonValue:
    """A text made of the parts: it holds what they hold. Without a text, or one too long, that alone."""
    if text is not None and len(text) > MOST_TEXT:
        text = None
    return PythonValue(text, name, None, (), merged(parts), any(part.every for part in parts))


def merged(parts: Iterable[PythonValue]) -> tuple[Command, ...]:
    """The sources of all the parts."""
    found = tuple(feed for part in parts for feed in part.feeds)
    return tuple(dict.fromkeys(found))[:MOST_FEEDS] if len(found) > 1 else found


def listing(*elements: PythonValue) -> PythonValue:
    """Many values, of which each is like one of these."""
    return PythonValue(None, "listing()", elements, (), merged(elements))


def entry(value: PythonValue, key: str) -> PythonValue:
    """The member of a dictionary under a key."""
    if value.items is not None and key in value.keys:
        return value.items[value.keys.index(key)]
    return UNKNOWN


def flags(value: PythonValue) -> str:
    """The value as a flag's value: its text, or the name of what it is."""
    return value.text if value.text is not None else value.name or HOLE


MODULES = vocabulary(
    "os sys subprocess shutil socket requests pathlib base64 binascii codecs zlib glob pickle ctypes pty",
    "psutil urllib urllib2 httpx importlib builtins signal sqlite3 platform tempfile stat mmap marshal boto3",
    "io zipfile tarfile gzip smtplib ftplib paramiko shlex threading multiprocessing winreg asyncio",
)
"""Modules taken for imported where they are not: a notebook's earlier cell did it."""
BUILTINS = vocabulary(
    "open exec eval compile getattr setattr __import__ str bytes bytearray list tuple dict set chr ord len",
    "input int map filter zip enumerate sorted reversed range print globals locals vars execfile repr format",
    "iter next hex object type super min max sum any all float bool",
)
_SESSIONS = ("requests.Session()", "requests.session()", "httpx", "httpx.Client()", "httpx.AsyncClient()")
_CLIENTS = (
    "aiohttp.ClientSession()",
    "urllib3.PoolManager()",
    "urllib3",
    "cloudscraper.create_scraper()",
    "curl_cffi.requests",
)
_OPENS = (
    "io.open",
    "codecs.open",
    "_io.open",
    "builtins.open",
    "os.fdopen",
    "gzip.open",
    "bz2.open",
    "lzma.open",
)
_PATHS = ("PosixPath", "WindowsPath", "PurePath", "PurePosixPath", "PureWindowsPath")
_LINKS = ("os.path", "posixpath", "ntpath")
CANONICAL: dict[str, str] = {
    **dict.fromkeys((*_SESSIONS, *_CLIENTS), "requests"),
    **dict.fromkeys((*_OPENS, "aiofiles.open", "smart_open.open", "fsspec.open"), "open"),
    **{f"pathlib.{one}": "pathlib.Path" for one in _PATHS},
    **dict.fromkeys(_LINKS[1:], "os.path"),
    **dict.fromkeys(("posix", "nt"), "os"),
    **{f"builtins.{one}": one for one in BUILTINS},
    **{f"__builtins__.{one}": one for one in BUILTINS},
    **{f"importlib.{one}": "__import__" for one in ("import_module", "__import__")},
    **dict.fromkeys(
        ("urllib2.urlopen", "urllib.urlopen", "urllib.request.build_opener().open"), "urllib.request.urlopen"
    ),
    **dict.fromkeys(("urllib2.Request",), "urllib.request.Request"),
    **dict.fromkeys(("urllib.urlretrieve",), "urllib.request.urlretrieve"),
    **dict.fromkeys(("urllib.unquote", "urllib.parse.unquote_plus"), "urllib.parse.unquote"),
    **dict.fromkeys(
        ("commands.getoutput", "commands.getstatusoutput", "popen2.popen2"), "subprocess.getoutput"
    ),
    **dict.fromkeys(("cPickle", "_pickle", "dill", "cloudpickle", "joblib"), "pickle"),
    **dict.fromkeys(("redis.StrictRedis()", "redis.from_url()", "redis.Redis.from_url()"), "redis.Redis()"),
    **dict.fromkeys(("pathlib.Path.home().expanduser()", "pathlib.Path.home()"), "pathlib.Path()"),
    "pathlib.Path.cwd()": "pathlib.Path()",
    "docker.DockerClient()": "docker.from_env()",
    "docker.client.from_env()": "docker.from_env()",
    "boto3.Session()": "boto3",
    "boto3.session.Session()": "boto3",
    "boto3.resource": "boto3.client",
    "glob.iglob": "glob.glob",
    "os.popen2": "os.popen",
    "os.popen3": "os.popen",
    "os.getenvb": "os.getenv",
    "psutil.process_iter()": "psutil.process_iter()",
    "tarfile.TarFile()": "tarfile.open()",
    "tarfile.TarFile.open()": "tarfile.open()",
    "win32api.keybd_event": "keyboard.press",
    "_winreg": "winreg",
}


def dotted(base: str, attribute: str) -> str:
    """The canonical name of an attribute of what has a name; "" of what has none."""
    if not base:
        return ""
    name = f"{base}.{attribute}"
    return CANONICAL.get(name, name)


_ASSUMED = {
    **{name: PythonValue(None, CANONICAL.get(name, name)) for name in MODULES | BUILTINS},
    "Path": PythonValue(None, "pathlib.Path"),
    "__file__": PythonValue("./script.py"),
    "__name__": PythonValue("__main__"),
    "__builtins__": PythonValue(None, "builtins"),
    "Popen": PythonValue(None, "subprocess.Popen"),
    "rmtree": PythonValue(None, "shutil.rmtree"),
    "urlopen": PythonValue(None, "urllib.request.urlopen"),
}
"""What a name means that the program did not set: a builtin, or what an earlier cell imported."""
_STAR = frozenset(
    {"os", "subprocess", "shutil", "socket", "pathlib", "ctypes", "glob", "base64", "pickle", "requests"}
)
"""Modules from which `import *` is followed."""


class PythonScope:
    """Names of a module, or of a function within it; attributes are kept as names with a dot."""

    def __init__(self, *outer: dict[str, PythonValue], stars: tuple[str, ...] = ()) -> None:
        self._names: tuple[dict[str, PythonValue], ...] = ({}, *outer)
        self._stars = stars

    def within(self) -> PythonScope:
        """The scope of a function that is read here."""
        return PythonScope(*self._names, stars=self._stars)

    def get(self, name: str) -> PythonValue:
        """What is known of a name."""
        found = self.find(name)
        if found is not None:
            return found
        if name in _ASSUMED:
            return _ASSUMED[name]
        return PythonValue(None, _canonical(f"{self._stars[-1]}.{name}")) if self._stars else UNKNOWN

    def find(self, name: str) -> PythonValue | None:
        """What the program itself made of a name, None if nothing."""
        for names in self._names:
            if name in names:
                return names[name]
        return None

    def set(self, name: str, value: PythonValue) -> None:
        """Bind a name here; an attribute is bound for the whole program."""
        self._names[-1 if "." in name else 0][name] = value

    def imported(self, module: str, name: str | None, alias: str | None) -> None:
        """`import module as alias`, or `from module import name as alias`."""
        if name == "*":
            self._stars += (module,) if module in _STAR else ()
            return
        whole = f"{module}.{name}" if name else module if alias else module.partition(".")[0]
        self.set(alias or name or whole, PythonValue(None, _canonical(whole)))


def _canonical(name: str) -> str:
    first, _, rest = name.partition(".")
    whole = f"{CANONICAL.get(first, first)}.{rest}" if rest else name
    return CANONICAL.get(whole, whole)


_SYS = {
    "sys.executable": "python3",
    "os.sep": "/",
    "os.linesep": "\n",
    "os.curdir": ".",
    "os.devnull": "/dev/null",
}


def attribute(base: PythonValue, name: str) -> PythonValue:
    """What is known of an attribute."""
    if base.name == PATH:
        return _path_attribute(base, name)
    whole = dotted(base.name, name)
    if whole in _SYS:
        return PythonValue(_SYS[whole])
    if base.name == "stat" and isinstance(getattr(stat, name, None), int):
        return PythonValue(str(getattr(stat, name)), "int")
    if base.name == "signal" and name.startswith("SIG"):
        return PythonValue(name)
    if whole == "os.environ":
        return PythonValue(None, whole, feeds=(Command("env"),))
    return PythonValue(None, whole, feeds=base.feeds, every=base.every)


def _path_attribute(base: PythonValue, name: str) -> PythonValue:
    if name == "parent":
        text = posixpath.dirname(word(base)) or "."
        return base._replace(text=text)
    if name in {"name", "stem", "path"}:
        return known(posixpath.basename(word(base)) if name != "path" else word(base), base)
    return PythonValue(None, f"{PATH}.{name}", feeds=base.feeds, every=base.every)

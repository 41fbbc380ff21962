"""One name for each thing that Python's libraries know by several (their reference documentation)."""

from __future__ import annotations

from app.core.gate1.vocabulary import vocabulary

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

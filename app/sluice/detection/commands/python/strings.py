"""What Python's own functions make of constant texts; bytes are texts of Latin-1."""

from __future__ import annotations

import base64
import binascii
import codecs
import posixpath
import urllib.parse
import zlib
from typing import TYPE_CHECKING

from sluice.detection.commands.python.values import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "ignore")


def _inflate(text: str) -> bytes:
    for bits in (zlib.MAX_WBITS, zlib.MAX_WBITS | 16, -zlib.MAX_WBITS):
        try:
            return zlib.decompressobj(bits).decompress(_bytes(text), MOST_TEXT)
        except zlib.error:
            continue
    raise ValueError("not deflated")


_BINARY: dict[str, Callable[[str], bytes]] = {
    "base64.b64decode": lambda text: base64.b64decode(_bytes(text)),
    "base64.decodebytes": lambda text: base64.b64decode(_bytes(text)),
    "base64.decodestring": lambda text: base64.b64decode(_bytes(text)),
    "base64.standard_b64decode": lambda text: base64.b64decode(_bytes(text)),
    "base64.urlsafe_b64decode": lambda text: base64.urlsafe_b64decode(_bytes(text)),
    "base64.b32decode": lambda text: base64.b32decode(_bytes(text)),
    "base64.b16decode": lambda text: base64.b16decode(_bytes(text)),
    "base64.b85decode": lambda text: base64.b85decode(_bytes(text)),
    "base64.a85decode": lambda text: base64.a85decode(_bytes(text)),
    "binascii.a2b_base64": lambda text: binascii.a2b_base64(_bytes(text)),
    "binascii.unhexlify": lambda text: binascii.unhexlify(_bytes(text)),
    "binascii.a2b_hex": lambda text: binascii.unhexlify(_bytes(text)),
    "bytes.fromhex": bytes.fromhex,
    "bytearray.fromhex": bytes.fromhex,
    "zlib.decompress": _inflate,
    "gzip.decompress": _inflate,
}
DECODERS = frozenset(_BINARY) | {"codecs.decode", "marshal.loads", "bz2.decompress", "lzma.decompress"}
"""Functions whose result, where it is run as a program, hides that program."""
_CODECS = {"rot13": "rot13", "rot_13": "rot13", "rot-13": "rot13"}
_BINARY_CODECS = {"hex": "bytes.fromhex", "base64": "base64.b64decode", "zlib": "zlib.decompress"}
_PLAIN: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "lstrip": str.lstrip,
    "rstrip": str.rstrip,
    "lower": str.lower,
    "upper": str.upper,
    "title": str.title,
    "swapcase": str.swapcase,
    "casefold": str.casefold,
    "capitalize": str.capitalize,
}
_PATHS: dict[str, Callable[[str], str]] = {
    "os.path.expanduser": str,
    "os.path.expandvars": str,
    "os.path.abspath": str,
    "os.path.realpath": str,
    "os.path.normpath": posixpath.normpath,
    "os.path.dirname": posixpath.dirname,
    "os.path.basename": posixpath.basename,
    "os.fspath": str,
    "os.fsdecode": str,
    "shlex.quote": str,
    "sqlalchemy.text": str,
    "textwrap.dedent": str,
    "urllib.parse.unquote": urllib.parse.unquote,
    "urllib.parse.quote": str,
}
OF_PATHS = tuple(_PATHS)
"""Functions over one path or quoted text."""


def decode(function: str, text: str, codec: str = "") -> str | None:
    """What a decoder makes of a text, as text; None where it is none of its kind."""
    function = _BINARY_CODECS.get(codec.partition("_")[0].lower(), function)
    try:
        if function in _BINARY:
            return decode_text(_BINARY[function](text))
        if codec.lower() in _CODECS:
            return codecs.decode(text, "rot13")
    except (ValueError, zlib.error):
        return None
    return None


def decode_text(data: bytes) -> str:
    """Bytes as text: UTF-8 where they are, Latin-1 for binary data, which further decoders take back."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def path_function(name: str, text: str) -> str | None:
    """What a function over paths or quoted texts makes of one; None where it is no such function."""
    function = _PATHS.get(name)
    return None if function is None else function(text)


def method(name: str, text: str, args: tuple[str | None, ...]) -> str | None:
    """What a method of a string gives; None where that is not known."""
    if name in _PLAIN and not args:
        return _PLAIN[name](text)
    if name in {"decode", "encode"}:
        return codecs.decode(text, "rot13") if args and (args[0] or "").lower() in _CODECS else text
    if name == "replace" and len(args) > 1 and args[0] is not None and args[1] is not None:
        return text.replace(args[0], args[1]) if len(text) * (len(args[1]) + 1) < MOST_TEXT else text
    if name in {"strip", "lstrip", "rstrip"} and args[0] is not None:
        return str(getattr(text, name)(args[0]))
    if name in {"removeprefix", "removesuffix"} and args and args[0] is not None:
        return str(getattr(text, name)(args[0]))
    return None

"""Calls that no command stands for: commands whose program is the call's dotted name, for patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.python.values import Value, flags, merged
from app.core.gate1.vocabulary import vocabulary

if TYPE_CHECKING:
    from app.core.gate1.python.called import Called

_LIBRARIES = vocabulary(
    "os ctypes mmap pty pickle marshal shelve pynput keyboard mouse pyhook pyxhook win32api win32process",
    "win32security win32crypt winreg multiprocessing signal resource scapy impacket ldap3 cv2 yaml",
    "logging code ptrace frida pymem wmi evdev pyrasite sounddevice pyaudio mss bluetooth nmap",
    "browser_cookie3 keyring pywifi jsonpickle",
)
"""Libraries whose calls a pattern may judge by name."""


def own_call(call: Called) -> Value:
    """Say the call itself, if its library is one of those; what it returns holds what it was given."""
    library = call.name.partition(".")[0].lower()
    if library in _LIBRARIES and "." in call.name:
        words = [flags(one)[:200] for one in call.args]
        words += [f"--{name}={flags(value)[:200]}" for name, value in call.keywords.items()]
        call.runs(call.name.lower(), *words, fed_by=merged([call.base, *call.given()]))
    elif call.method == "append" and call.walker.around.endless:
        call.runs("python.append")
    elif call.method == "__subclasses__" and call.name == "":
        call.runs("python.subclasses", *(() if call.base.name else ("unnamed",)))
    return call.result()

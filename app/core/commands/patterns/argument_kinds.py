"""Kinds of a command's targets that patterns name as `@kind`, each an RE2 expression over a whole word.

Sources: Filesystem Hierarchy Standard 3.0; the manual pages of the programs whose files are named; MITRE
ATT&CK T1003, T1037, T1053, T1070, T1098, T1543, T1546, T1552 for files worth stealing or planting.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import re2

if TYPE_CHECKING:
    from collections.abc import Iterable

HOME = r"(?:~[a-z0-9._-]*|\$\{?home\}?|%userprofile%|\$env:userprofile|/home/[^/]+|/users/[^/]+|/root)"
_MADE = (
    r"(?:node_modules|bower_components|__pycache__|__pypackages__|\.(?:pytest|mypy|ruff|parcel|sass|eslint|stylelint)[_-]?cache"
    r"|\.(?:turbo|next|nuxt|svelte-kit|tox|nox|eggs|gradle|angular|vite|nyc_output|dart_tool|ipynb_checkpoints)"
    r"|htmlcov|[\w.*-]+\.egg-info|[\w.*-]*\.py[co]|storybook-static|[\w.*-]+\.tsbuildinfo|deriveddata)"
)
"""What a tool makes again, by a name that nothing else has."""
_STEP = r"\.?[\w@*$-][\w@.*+-]*"
_END = r"(?:/|/\*|/\.\*|/\.)?"

KINDS: dict[str, str] = {
    "@root": r"/+\.?|/\*+|/\.\*|[a-z]:(?:[\\/]?\*?(?:\.\*)?)?|%systemdrive%\\?\*?|\$\{?rootfs\}?/?",
    "@home": rf"(?:{HOME}|/home|/users|c:\\users(?:\\[^\\]+)?){_END}",
    "@inhome": rf"{HOME}/.+|c:\\users\\.+",
    "@system": (
        r"/(?:etc|usr|bin|sbin|lib|lib32|lib64|libx32|boot|sys|proc|dev|var|root|run|system|library"
        r"|applications|private/etc|lost\+found)(?:/.*)?"
        r"|(?:c:|%systemdrive%)\\(?:windows|program files|programdata|boot)(?:\\.*)?"
        r"|%(?:systemroot|windir|programfiles|programdata)%(?:\\.*)?"
    ),
    "@toplevel": r"/[^/]+/?(?:\*|\.\*)?|[a-z]:\\[^\\]+\\?\*?",
    "@device": (
        r"/dev/(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk|disk|rdisk|dm-|md\d|mapper/|loop\d|mem|kmem|port|sd[x*?]|nbd|zvol/"
        r"|mtd|input/).*|\\\\\.\\physicaldrive.*"
    ),
    "@temp": (
        r"(?:/tmp|/var/tmp|/private/tmp|/dev/shm|\$\{?te?mp(?:dir)?\}?|%te?mp%|\$\(mktemp.*)/.+|\$\{?tmpdir[^/]*\}?(?:/.*)?"
    ),
    "@wildcard": r"(?:\./)?(?:\*+|\.\*|\*\.\*|\.\[?[^/]*\]?\*|\*/)|\{\*,\.\*\}",
    "@here": r"\.{1,2}(?:/\.{1,2})*/?(?:\*)?",
    "@above": r"\.\.(?:/.*)?",
    "@absolute": r"/[^/].*|[a-z]:\\.+",
    "@variable": r"\"?\$(?:\{?[a-z_]\w*\}?|@|\d)(?:/.*)?|\$\(\).*",
    "@url": r"(?:https?|ftp|ftps|sftp|tftp|smb|ws)://.+",
    "@remote": r"(?:[\w.-]+@)?[\w.-]{2,}:[^\\].*|(?:s3|gs|scp|sftp|ftp|https?|rsync)://.+",
    "@accounts": (
        r"(?:/private)?/etc/(?:passwd|shadow|group|gshadow|sudoers(?:\.d/.*)?|master\.passwd|security/passwd|subuid)-?"
    ),
    "@hashes": (
        r"/etc/(?:shadow|gshadow|master\.passwd|sudoers(?:\.d/.*)?|krb5\.keytab|security/passwd|opasswd)-?|/var/db/dslocal/.*"
        r"|(?:.*\\)?(?:ntds\.dit|config\\(?:sam|system|security))|/etc/ssl/private/.*|/etc/ssh/ssh_host_\w+_key"
        r"|/proc/(?:\d+|self|\*)/(?:mem|environ)|/etc/kubernetes/admin\.conf|/var/run/secrets/.*|/run/secrets/.*"
    ),
    "@key": (
        rf"(?:{HOME}/|\./|.*/)?(?:\.ssh/(?:id_[a-z0-9]+|identity|\*)|id_rsa|id_ed25519|id_ecdsa|id_dsa|\.aws/credentials"
        r"|\.aws/\*|\.azure/\w+\.json|\.kube/config|\.docker/config\.json|\.gnupg/.*|\.netrc|_netrc|\.pgpass|\.my\.cnf"
        r"|\.git-credentials|\.config/gcloud/(?:.*credentials.*|access_tokens.*)|\.vault-token|wallet\.dat|login\.keychain(?:-db)?"
        r"|logins\.json|key[34]\.db|login data|\.config/gh/hosts\.yml|cookies\.sqlite|\.password-store/.*)"
    ),
    "@secret": (
        rf"(?:{HOME}/|\./|.*/)?(?:\.ssh(?:/(?:id_\w+|identity|\*|\.?|authorized_keys)?)?|id_rsa|id_ed25519|id_ecdsa|id_dsa"
        r"|\.aws(?:/.*)?|\.azure(?:/.*)?|\.kube/config|\.docker/config\.json|\.gnupg(?:/.*)?|\.netrc|_netrc|\.pgpass"
        r"|\.git-credentials|\.config/gcloud(?:/.*)?|\.npmrc|\.pypirc|\.env(?:\.\w+)?|credentials\.json|\.vault-token"
        r"|wallet\.dat|keychain-db|login\.keychain(?:-db)?|logins\.json|key[34]\.db|login data"
        r"|cookies\.sqlite|\.htpasswd"
        r"|\.my\.cnf|\.config/gh/hosts\.yml|\.terraform\.d/credentials.*|.*\.(?:pem|p12|pfx|ppk|kdbx|jks|keystore))"
    ),
    "@startup": (
        rf"(?:{HOME}/)?\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc"
        r"|xinitrc|xprofile|xsession|ssh/authorized_keys2?|ssh/rc|config/autostart/.*|config/systemd/user/.*|config/fish/.*)"
        r"|/root/\.\w+|/etc/(?:rc\.local|rc\.d/.*|rc\.common|profile|profile\.d/.*|bash\.bashrc|bashrc|zsh/.*|zprofile|environment"
        r"|cron\w*(?:[./].*)?|crontab|anacrontab|init\.d/.*|init/.*|inittab|systemd/.*|ld\.so\.preload|ld\.so\.conf.*|pam\.d/.*"
        r"|security/.*|emond\.d/.*|update-motd\.d/.*|udev/rules\.d/.*|xdg/autostart/.*|ssh/sshd_config.*|sudoers.*"
        r"|apt/apt\.conf\.d/.*|periodic/.*|launchd\.conf|modules.*|modprobe\.d/.*)"
        r"|/(?:usr/)?lib/systemd/.*|/var/spool/cron.*|/var/at/.*|.*/library/launch(?:agents|daemons)/.*|/library/startupitems.*"
        r"|.*\\start menu\\programs\\startup\\.*|.*\\currentversion\\run(?:once)?(?:\\.*)?|.*authorized_keys"
    ),
    "@made": (
        rf"(?:(?:\./|/)?(?:{_STEP}/)*{_MADE}|(?:\./)?(?:{_STEP}/)*(?:dist|coverage|\.cache|tmp/cache))"
        rf"(?:/(?:{_STEP}|\*))*/?"
    ),
    "@logs": (
        rf"(?:/private)?/var/log(?:/.*)?|(?:{HOME}/|.*/)?\.(?:bash|zsh|sh|python|mysql|psql|node_repl)?_?history|\$\{{?histfile\}}?"
        r"|/var/(?:run|adm)/(?:utmp|wtmp|lastlog).*|/var/audit.*|.*\.evtx|.*consolehost_history\.txt"
    ),
    "@shell": r"(?:/usr)?(?:/local)?/bin/(?:ba|z|da|k|c|tc|a)?sh|(?:ba|z|da|k|a)?sh",
}


REMEMBERED_WORDS = 4096
LONGEST_REMEMBERED = 96
"""Longer words are not kept; those that come again are mostly subcommands and paths."""
_MARKS = re.compile(r"[/~$.*:%\\{_]")
"""No kind of target is a word without one of these."""
_MEMORY = 64 << 20
"""Bytes for the states of the common automaton: a set without any left would say that nothing matches."""
_BITS = {name: 1 << place for place, name in enumerate(KINDS)}


def _all_kinds() -> re2.Set:
    options = re2.Options()
    options.max_mem = _MEMORY
    kinds = re2.Set.FullMatchSet(options)
    for form in KINDS.values():
        kinds.Add(f"(?s)(?:{form})")
    kinds.Compile()
    return kinds


_ALL = _all_kinds()


def kinds_among(names: Iterable[str]) -> int:
    """The kinds of those names, as bits of one number."""
    bits = 0
    for name in names:
        bits |= _BITS[name]
    return bits


def kinds_of(word: str) -> int:
    """The kinds that a word in lower case is, as bits of one number; linear in the word."""
    if _MARKS.search(word) is None:
        return 0
    return _remembered(word) if len(word) <= LONGEST_REMEMBERED else _found(word)


def _found(word: str) -> int:
    bits = 0
    for place in _ALL.Match(word.encode("utf-8", "replace")) or ():
        bits |= 1 << place
    return bits


_remembered = lru_cache(maxsize=REMEMBERED_WORDS)(_found)

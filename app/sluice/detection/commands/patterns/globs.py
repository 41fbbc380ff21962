"""Many globs, and the kinds of targets that patterns name as `@kind`, as one question about some words.

Nearly all globs in patterns are a literal, a beginning, an end or a middle, which Python's own string methods
answer. What is left becomes an expression that cannot go back: what stands between two stars has a fixed
length, so its first place is as good as any later one, and the group around it is atomic. The kinds are not
of that form: each is an expression over a whole word, which RE2 answers.

Sources of the kinds: Filesystem Hierarchy Standard 3.0; the manual pages of the programs whose files are
named; MITRE ATT&CK T1003, T1037, T1053, T1070, T1098, T1543, T1546, T1552 for files worth stealing or
planting.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import re2

from sluice.detection.library_model import LibraryError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

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
_BITS = {name: 1 << index for index, name in enumerate(KINDS)}


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
    return _remembered(word) if len(word) <= LONGEST_REMEMBERED else _find(word)


def _find(word: str) -> int:
    bits = 0
    for index in _ALL.Match(word.encode("utf-8", "replace")) or ():
        bits |= 1 << index
    return bits


_remembered = lru_cache(maxsize=REMEMBERED_WORDS)(_find)


_PARTS = re.compile(r"(\*+|\?|\[[^\]]+\])")
_SPECIAL = frozenset("*?[")


class Globs:
    """Whether a word in lower case matches any of the alternatives."""

    __slots__ = (
        "_all",
        "_ends",
        "_exact",
        "_kinds",
        "_least",
        "_middles",
        "_mixed",
        "_others",
        "_starts",
        "_unlike",
    )

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts`: globs and `@kinds`, with `|` between alternatives inside one text.

        Raises LibraryError for brackets that are no set of characters.
        """
        exact: set[str] = set()
        starts: list[str] = []
        ends: list[str] = []
        middles: list[str] = []
        others: list[str] = []
        mixed: list[str] = []
        kinds: set[str] = set()
        for alternative in (branch.lower() for text in texts for branch in text.split("|")):
            inner = alternative.strip("*")
            before, at, kind = alternative.rpartition("@")
            if alternative in KINDS:
                kinds.add(alternative)
            elif at + kind in KINDS:
                mixed.append(f"{_read_literal(before)}(?:{KINDS[at + kind]})")
            elif _SPECIAL.intersection(inner):
                others.append(alternative)
            elif inner == alternative:
                exact.add(alternative)
            elif alternative[0] != "*":
                starts.append(inner)
            else:
                (middles if alternative[-1] == "*" else ends).append(inner)
        self._all = "" in starts or "" in middles or "" in ends
        self._exact, self._starts, self._ends = frozenset(exact), tuple(starts), tuple(ends)
        self._middles = tuple(middles)
        self._others = _compile(others).fullmatch if others else None
        self._least = min(map(_least, others + middles), default=0)
        self._mixed = re2.compile("(?s)" + "|".join(mixed)).fullmatch if mixed else None
        self._kinds = kinds_among(kinds)
        self._unlike = bool(starts or ends or middles or others or mixed or kinds)

    def match(self, word: str) -> bool:
        """Whether the whole of `word` matches an alternative."""
        return self._all or word in self._exact or (self._unlike and self._resembles(word))

    def match_any(self, words: Collection[str]) -> bool:
        """Whether any of the words matches."""
        if not words:
            return False
        if self._all or not self._exact.isdisjoint(words):
            return True
        if self._unlike:
            for word in words:
                if self._resembles(word):
                    return True
        return False

    def _resembles(self, word: str) -> bool:
        return (
            word.startswith(self._starts)
            or word.endswith(self._ends)
            or (len(word) >= self._least and self._lies_within(word))
            or (self._kinds != 0 and self._kinds & kinds_of(word) != 0)
            or (self._mixed is not None and self._mixed(word) is not None)
        )

    def _lies_within(self, word: str) -> bool:
        for part in self._middles:
            if part in word:
                return True
        return self._others is not None and self._others(word) is not None


def _least(glob: str) -> int:
    """The length of the shortest word that the glob matches."""
    return len(_PARTS.sub(lambda part: "" if part[0][0] == "*" else "?", glob))


def _expression(glob: str) -> str:
    segments = [""]
    for part in _PARTS.split(glob):
        if part[:1] == "*":
            segments.append("")
        else:
            segments[-1] += _escape_part(part)
    if len(segments) == 1:
        return segments[0]
    first, *between, last = segments
    return first + "".join(f"(?>.*?{literal})" for literal in between) + ".*" + last


def _escape_part(part: str) -> str:
    if part == "?":
        return "."
    if part[:1] == "[" and part[-1:] == "]":
        negated, members = ("^", part[2:]) if part[1] == "!" else ("", part[1:])
        return f"[{negated}" + members.replace("[", r"\[")
    return re.escape(part)


def _read_literal(glob: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(part[:1]) or re2.escape(part) for part in _PARTS.split(glob))


def _compile(globs: list[str]) -> re.Pattern[str]:
    try:
        return re.compile("|".join(f"(?:{_expression(glob)})" for glob in globs), re.DOTALL)
    except re.error as error:
        raise LibraryError(f"no glob among {globs}: {error}") from error

"""`sluice init`: a development machine, from nothing to a policy in force."""

from __future__ import annotations

import secrets
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.machine.init_policy import (
    EXAMPLES,
    KEYS,
    REGISTRY_FILE,
    FirstPolicy,
    make_approver_files,
    write_json,
)
from sluice.cli.machine.init_settings import (
    SEAL_KEYS,
    VALUES_KEY,
    VERDICT_KEY,
    describe_left,
    extend_or_stop,
    make_own_settings,
    write_settings,
)
from sluice.cli.machine.topics import create_topics_or_stop, require_differences
from sluice.cli.output import WRONG, clean, console, print_json, stop
from sluice.cli.policy.control_topics import print_refused, run_publishing
from sluice.cli.policy.key_files import (
    FOLDER_OF_OWNER,
    find_work_tree,
    require_new_key,
    require_private_keys,
)
from sluice.secrets.redis_seal import make_seal_key, write_seal_keys
from sluice.secrets.secret_files import create_secret
from sluice.secrets.value_keys import make_value_key, write_value_key
from sluice.settings.reader import (
    CONFIG,
    SETTINGS_NAME,
    Settings,
    SettingsError,
    find_default_home,
    find_settings_file,
    load_settings,
)
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.bootstrap.publishing import Publishing
    from sluice.cli.machine.init_settings import OwnSettings
    from sluice.core.registry.keys import SigningKey

VERDICTS = "verdicts"
PASSWORD_BYTES = 32
PEM = ".pem"
FIRST_ACTIONS = SHIPPED_FILES / "examples" / "actions.jsonl"
_Home = Annotated[
    Path | None,
    typer.Option(file_okay=False, help="Folder for keys and settings, outside any work tree. [~/.sluice]"),
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("init")(init)


def init(home: _Home = None, *, as_json: _Json = False) -> None:
    """Set a development machine up: keys, topics, a registry and bundles, signed and published.

    It makes the keys of a root, an owner, a reviewer and a VP (0600, in
    HOME/keys) and the key with which workers sign (HOME/verdicts.pem); that
    of tree heads too, if heads.signing_key names a file NAME.pem. It
    creates the topics, signs the example registry and the bundles that
    ship, publishes them, and writes HOME/sluice.toml, which names the
    broker, the topics and the root key. `sluice worker` needs nothing else.
    Gates that ask a model observe if the settings name one.

    You may run it again, also on what an earlier version made: files,
    topics and policy that are there stay as they are, and it says what was
    missing and is made. A setting after which earlier records count no more
    it prints, for you to add. In production: docs/policy.md.

    Exit codes: 0 everything is there, 1 something is refused, 2 could not
    do it.

    Example: sluice init && export SLUICE_CONFIG=~/.sluice/sluice.toml
    """
    folder = (home or find_default_home()).expanduser().absolute()
    _stop_in_a_work_tree(folder)
    settings = _require_settings(folder)
    _stop_if_trust_is_anothers(folder, settings)
    say = _InitSteps(silent=as_json)
    topics = _require_topics(settings)
    say("Topics", _count_done(sum(topics.values()), len(topics), "created"))
    _make_or_stop(folder)
    keys, made = _require_keys(folder / "keys")
    say("Keys", f"{folder / 'keys'}: {_count_done(len(made), len(keys), 'made')}")
    written, own = _write_or_stop(folder, settings, keys, made)
    added, left = extend_or_stop(folder / SETTINGS_NAME, own, settings, fresh=all(topics.values()))
    say("Files", ", ".join(f"{folder / name}" for name in written) or "all there")
    if added:
        say("Settings", f"{folder / SETTINGS_NAME}: {', '.join(added)} added")
    _stop_without_installation(folder, left)
    first_policy = FirstPolicy(folder, keys, settings)
    publishing = _publish_policy(folder, first_policy)
    say("Policy", _count_done(len(publishing.written), first_policy.count, "published"))
    for line in first_policy.differing:
        say("", line)
    print_refused(publishing.refused)
    if as_json:
        files = {"keys_made": made, "files_written": written}
        fields = _list_new_topics(topics) | files | _describe_settings(folder, added, left)
        print_json(fields | _describe_policy(publishing, first_policy))
    if publishing.refused:
        raise typer.Exit(WRONG)
    if not (any(topics.values()) or made or written or added or left or publishing.written):
        say("", "Nothing was missing.")
    say.print_next_steps(folder, left)


def _stop_without_installation(folder: Path, left: OwnSettings) -> None:
    """Nothing can be published without its id."""
    if "policy" in left:
        stop("\n".join(describe_left(folder / SETTINGS_NAME, left)))


def _list_new_topics(topics: Mapping[str, bool]) -> dict[str, list[str]]:
    """Those that were not there, as JSON."""
    return {"topics_created": [name for name, new in topics.items() if new]}


def _describe_settings(folder: Path, added: Sequence[str], left: OwnSettings) -> dict[str, Any]:
    """Describe the result for the settings, as JSON."""
    return {"settings": str(folder / SETTINGS_NAME), "settings_added": added, "settings_left": left}


def _describe_policy(publishing: Publishing, first_policy: FirstPolicy) -> dict[str, list[str]]:
    """Describe the result for the policy, as JSON."""
    return {
        "published": [(record.key or b"").decode() for record in publishing.written],
        "differing": first_policy.differing,
        "refused": [str(refusal) for refusal in publishing.refused],
    }


class _InitSteps:
    """Prints a line for each step when it is over."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def __call__(self, what: str, message: str) -> None:
        if not self._silent:
            console.print(f"{what:<8}{clean(message)}", soft_wrap=True, highlight=False)

    def print_next_steps(self, folder: Path, left: OwnSettings) -> None:
        """Lines to copy."""
        lines = (
            *describe_left(folder / SETTINGS_NAME, left),
            "",
            "Next, here and in every new terminal:",
            f"  export {CONFIG}={shlex.quote(str(folder / SETTINGS_NAME))}",
            "and then:",
            "  sluice worker                # decides; leave it running",
            "  sluice watch gate.verdicts   # in another terminal",
            f"  sluice publish {_shorten_path(FIRST_ACTIONS)}",
        )
        for line in () if self._silent else lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _stop_in_a_work_tree(folder: Path) -> None:
    tree = find_work_tree(folder)
    if tree is not None:
        stop(
            f"{folder} lies in the git work tree {tree}, one `git add` from everybody: choose another --home"
        )


def _require_settings(folder: Path) -> Settings:
    """Those of an earlier run, else those in force. SLUICE_CONFIG may name the file that is still to come."""
    own, named = folder / SETTINGS_NAME, find_settings_file()
    is_own = own.exists() or (named is not None and named.absolute() == own)
    try:
        return load_settings(own, to_come=True) if is_own else load_settings()
    except SettingsError as error:
        stop(str(error))


def _stop_if_trust_is_anothers(folder: Path, settings: Settings) -> None:
    """Nothing is published under another root key than ours, and no setting is replaced."""
    own, pem = folder / SETTINGS_NAME, folder / "keys" / "root.pem"
    trusted = settings.policy.root_keys
    if not trusted and own.exists():
        stop(f"{own} is there and names no policy.root_keys; nothing is overwritten: choose another --home")
    if not trusted:
        return
    public_key = require_private_keys([pem])[0].public.text if pem.exists() else None
    if public_key not in trusted:
        what = "is not among them" if public_key else "does not exist"
        stop(
            f"policy.root_keys names {', '.join(trusted)}, and {pem} {what}: this policy has an owner "
            "already, and `sluice init` is for an installation that has none"
        )


def _require_topics(settings: Settings) -> dict[str, bool]:
    made = create_topics_or_stop(settings)
    if differences := require_differences(settings):
        stop(
            "\n".join(
                f"{difference.topic}: {difference.what} is {difference.actual}, must be {difference.expected}"
                for difference in differences
            )
        )
    return made


def _make_or_stop(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_OF_OWNER)
    except OSError as error:
        stop(f"cannot write to {folder}: {error.strerror}")


def _require_keys(folder: Path) -> tuple[dict[str, SigningKey], list[str]]:
    """The keys by name, and which of them are new."""
    made = []
    for name in KEYS:
        if not (folder / f"{name}.pem").exists():
            require_new_key(folder, name)
            made.append(name)
    return dict(zip(KEYS, require_private_keys(folder / f"{name}.pem" for name in KEYS), strict=True)), made


def _write_or_stop(
    folder: Path, settings: Settings, keys: Mapping[str, SigningKey], made: Sequence[str]
) -> tuple[list[str], OwnSettings]:
    """The files that were not there, by name, and the home's own settings. Their file comes
    last, when all that they rest on is there."""
    verdict_key, written = _require_verdict_key(folder)
    texts = {name: write_json(entries) for name, entries in make_approver_files(folder, keys, made).items()}
    texts[REGISTRY_FILE] = EXAMPLES.read_bytes()
    written += _require_redis_secrets(folder, settings.redis.password_file) + _require_values_key(folder)
    written += _require_head_key(settings)
    own = make_own_settings(settings, keys["root"].public.text, verdict_key, folder)
    for name, text in {**texts, SETTINGS_NAME: write_settings(settings, own).encode()}.items():
        try:
            with (folder / name).open("xb") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            stop(f"cannot write {folder / name}: {error.strerror}")
        written.append(name)
    return written, own


def _require_redis_secrets(folder: Path, password: Path | None) -> list[str]:
    """The file of keys for entries in a Redis, and the file of its password if the settings name one, where
    they were not there."""
    written, keys = [], folder / SEAL_KEYS
    try:
        if not keys.exists():
            write_seal_keys(keys, (make_seal_key(),))
            written.append(SEAL_KEYS)
        if password is not None and not password.exists():
            password.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_OF_OWNER)
            create_secret(password, f"{secrets.token_urlsafe(PASSWORD_BYTES)}\n".encode())
            written.append(str(password))
    except OSError as error:
        stop(f"cannot write {error.filename or keys}: {error.strerror}")
    return written


def _require_values_key(folder: Path) -> list[str]:
    """The file of the master key of values, where it was not there."""
    try:
        write_value_key(folder / VALUES_KEY, make_value_key())
    except FileExistsError:
        return []
    except OSError as error:
        stop(f"cannot write {folder / VALUES_KEY}: {error.strerror}")
    return [VALUES_KEY]


def _require_head_key(settings: Settings) -> list[str]:
    """The file of the head signer's key if the settings name one, and its public half, where they were not
    there."""
    named = settings.heads.signing_key
    path = None if named is None else Path(named.get_secret_value())
    if path is None or path.suffix != PEM or path.exists():
        return []
    require_new_key(path.parent, path.stem)
    return [str(path), str(path.with_suffix(".pub"))]


def _require_verdict_key(folder: Path) -> tuple[str | None, list[str]]:
    """The public half of the workers' key, which lies beside the settings (workers have no other key), and
    the files of a new one. None where the settings name another key than one of this folder."""
    private, own = folder / VERDICT_KEY, folder / SETTINGS_NAME
    if private.exists():
        return require_private_keys([private])[0].public.text, []
    if own.exists() and "verdicts" in tomllib.loads(own.read_text(encoding="utf-8")):
        return None, []
    return require_new_key(folder, VERDICTS).public.text, [VERDICT_KEY, f"{VERDICTS}.pub"]


def _publish_policy(folder: Path, first_policy: FirstPolicy) -> Publishing:
    try:
        settings = load_settings(folder / SETTINGS_NAME)
    except SettingsError as error:
        stop(str(error))
    return run_publishing(settings, first_policy.sign_missing)


def _count_done(new: int, of: int, done: str) -> str:
    return f"{new} {done}" + (f", {of - new} there already" if of > new else "")


def _shorten_path(path: Path) -> str:
    """Shorten a path to one from here, where that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

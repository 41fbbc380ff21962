"""`sluice`: each verb is a module of this folder, imported when the verb is called and not before."""

from __future__ import annotations

import gc
import logging
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sluice.detection.kept import keep_in

if TYPE_CHECKING:
    from sluice.detection.kept import Store

_RUN, _POLICY, _LEDGER, _OFFLINE = "Run it", "Say what holds", "See what was decided", "Try without Kafka"


class Verb(NamedTuple):
    """A verb in the list: its panel, its module and the beginning of its help. The list imports none."""

    panel: str
    module: str
    says: str


VERBS = {
    "init": Verb(
        _RUN, "sluice.cli.machine.init", "Set a development machine up: keys, topics, a registry and bundles"
    ),
    "demo": Verb(_RUN, "sluice_demo.verb", "Show Sluice at work"),
    "broker": Verb(
        _RUN, "sluice.cli.machine.broker", "Start, find and stop a Kafka broker for this checkout."
    ),
    "topics": Verb(_RUN, "sluice.cli.machine.topics", "Create, list and check the topics on the broker"),
    "worker": Verb(
        _RUN,
        "sluice.cli.machine.worker",
        "Decide: read proposed actions and outcomes, publish verdicts, until stopped",
    ),
    "gateway": Verb(_RUN, "sluice.cli.machine.gateway", "Serve the gate over HTTP"),
    "notify": Verb(_RUN, "sluice.cli.machine.notify", "Tell people and programs what waits for a person"),
    "archive": Verb(
        _RUN,
        "sluice.cli.machine.archive",
        "Keep the topics' records in a folder or a bucket, check and restore them.",
    ),
    "publish": Verb(_RUN, "sluice.cli.machine.publish", "Publish JSON lines to an input topic"),
    "mcp": Verb(
        _RUN, "sluice.cli.machine.mcp", "Stand before an MCP server: each call goes through the gate"
    ),
    "hook": Verb(
        _RUN, "sluice.cli.machine.hook", "Answer a coding agent's hook: each call goes through the gate"
    ),
    "freeze": Verb(
        _POLICY, "sluice.cli.policy.freeze", "Freeze an agent, a session, a tenant, or everything"
    ),
    "thaw": Verb(
        _POLICY,
        "sluice.cli.policy.freeze",
        "End every freeze of an agent, a session, a tenant, or of everything.",
    ),
    "erase": Verb(
        _POLICY,
        "sluice.cli.policy.erase",
        "Destroy the keys of persons, and with them all that is sealed with these.",
    ),
    "rewrap": Verb(
        _POLICY,
        "sluice.cli.policy.rewrap",
        "Wrap the keys of all persons with the first master key of the file.",
    ),
    "keys": Verb(_POLICY, "sluice.cli.policy.key_files", "Make Ed25519 keys."),
    "bundle": Verb(
        _POLICY,
        "sluice.cli.policy.bundle",
        "Write, check, compare, sign, publish and roll back bundles of policy and of quality.",
    ),
    "backtest": Verb(
        _POLICY,
        "sluice.cli.backtest.backtest",
        "Decide a period of the ledger again under a policy that is not in force.",
    ),
    "registry": Verb(
        _POLICY, "sluice.cli.policy.registry_verbs", "Write, check, sign and publish entries of the registry"
    ),
    "mandate": Verb(
        _POLICY,
        "sluice.cli.policy.mandate_verbs",
        "What agents are asked to do: issue, show and revoke signed mandates.",
    ),
    "usual": Verb(
        _POLICY,
        "sluice.cli.policy.usual_verbs",
        "Which destinations agents usually use: show and forget them.",
    ),
    "grader": Verb(_POLICY, "sluice.cli.policy.grader_prove", "Prove the model that judges actions."),
    "policy": Verb(_POLICY, "sluice.cli.policy.policy_import", "Make policies of a document."),
    "watch": Verb(_LEDGER, "sluice.cli.ledger.watch", "Show records as they are committed, one per line."),
    "show": Verb(_LEDGER, "sluice.cli.ledger.show", "Show one decision's whole story, the reason first."),
    "rerun": Verb(_LEDGER, "sluice.cli.ledger.rerun", "Execute decisions again, and compare field by field."),
    "ledger": Verb(_LEDGER, "sluice.cli.ledger.ledger", "Verify the ledger, or export it for an auditor."),
    "audit": Verb(
        _LEDGER,
        "sluice.cli.ledger.audit",
        "Answer an auditor's questions; write the evidence of decisions into one file, and check it.",
    ),
    "witness": Verb(
        _LEDGER,
        "sluice.cli.ledger.witness",
        "Co-sign a tree head, if its ledger continues that of the last head",
    ),
    "export": Verb(
        _LEDGER,
        "sluice.cli.ledger.export",
        "Write decisions as JSON lines for a SIEM, as they are committed.",
    ),
    "quality": Verb(
        _LEDGER, "sluice.cli.quality.quality", "Retrievals: the report of how items were decided, alarms"
    ),
    "escalations": Verb(
        _LEDGER,
        "sluice.cli.ledger.escalations",
        "Actions and retrievals that wait for a person: list and show them, approve or deny one",
    ),
    "quarantine": Verb(
        _LEDGER,
        "sluice.cli.ledger.quarantine",
        "Memories that wait for a reviewer: list and show them, decide on one",
    ),
    "decide": Verb(
        _OFFLINE, "sluice.cli.machine.decide", "Decide on input records offline: what a worker would answer."
    ),
    "evaluate": Verb(
        _OFFLINE,
        "sluice.cli.machine.evaluate",
        "Measure the gates on labelled tool calls, memory writes and retrievals.",
    ),
}
"""Every verb, in the order of the help. In its module it is `cli`, or what `register_VERB` or
`register` adds."""


class VerbGroup(TyperGroup):
    """The verbs of the command: the help lists them by `VERBS`, a call imports the module of one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, verb in VERBS.items():
            self.add_command(TyperCommand(name, help=verb.says, rich_help_panel=verb.panel))

    def invoke(self, ctx: Any) -> Any:
        """Call the verb. What cannot be used of the connection to Kafka ends it with its name."""
        from sluice.client.kafka_connection import ConnectionUnusable  # noqa: PLC0415 - for the call alone

        try:
            return super().invoke(ctx)
        except ConnectionUnusable as error:
            from sluice.cli.output import stop  # noqa: PLC0415 - as above

            stop(error.message)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb that is called; an unknown one ends the command with proposals."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_verb(name), rest


def load_verb(name: str) -> Any:
    """The command or the group of commands of a verb."""
    module = import_module(VERBS[name].module)
    holder = getattr(module, "cli", None)
    if holder is None:
        holder = typer.Typer(add_completion=False)
        (getattr(module, f"register_{name}", None) or module.register)(holder)
    command = get_command(holder)
    command.name = name
    return command


cli = typer.Typer(
    name="sluice",
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="""The gate on a Kafka stream that decides what AI agents may do, remember and read.

        First steps: sluice broker start, sluice init (it says what to export),
        sluice worker (leave it running); then in another terminal sluice watch
        gate.verdicts and sluice publish FILE. Settings: config/sluice.toml.

        Exit codes: 0 done; 1 the answer is no (differences, findings); 2 the
        command could not do it. A worker also ends with 3 after a fault,
        with 4 after another worker took over, and with 5 if policy that was
        in force is missing.""",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sluice {version('sluice')}")
        raise typer.Exit


@cli.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Say where compilations are kept, for every verb. The help is that of `cli`."""
    keep_in(_open_store)


def _open_store() -> Store | None:
    from sluice.adapters.stored_compilations import StoredCompilations  # noqa: PLC0415 - for verbs that compile
    from sluice.settings.reader import SettingsError, load_settings  # noqa: PLC0415 - as above

    try:
        folder = load_settings().cache.folder
    except SettingsError:
        return None
    return StoredCompilations(Path(folder).expanduser()) if folder else None


COLLECT_AFTER = 500_000
"""Objects. What a verb imports stays; with CPython's 700 the collector goes through it again and again."""


def main() -> None:
    """Entry point of the `sluice` command."""
    gc.set_threshold(COLLECT_AFTER)
    # A verb says itself what is wrong with the broker; those that log have handlers of their own, on top.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    cli()

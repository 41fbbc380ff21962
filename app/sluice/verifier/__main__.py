"""`python -m verifier FILE`: check an export of the ledger, or an audit package, with nothing but Python."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from .export import NotAnExport, read_lines
from .head_check import HeadSigners, HeadSources, HeadsUnreadable, find_witnesses, read_heads
from .head_proof_check import check_proof
from .ledger_findings import describe_heads, write_count
from .package_check import PackageTrust, check_package
from .package_file import PackageFile, is_package
from .package_manifest import NotAPackage
from .proof_check import SignedBy, UnusableKey
from .verify import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ledger_findings import LedgerFinding, Report

INTACT, WRONG, UNREADABLE = 0, 1, 2


def main(words: Sequence[str] | None = None) -> int:
    """The exit code: 0 intact, 1 something is wrong, 2 the file cannot be read."""
    options = _build_parser().parse_args(words)
    export = Path(options.export)
    if options.proof:
        return _check_proof(export, options)
    try:
        if is_package(export):
            return _check_package(export, options)
        heads = read_heads(export, _read_sources(options))
        with export.open("rb") as lines:
            report = verify(read_lines(lines), _read_signed_by(options), heads)
    except (OSError, NotAnExport, NotAPackage, HeadsUnreadable, UnusableKey, ImportError) as error:
        print(f"cannot read {options.export}: {error}", file=sys.stderr)
        return UNREADABLE
    print(write_json_line(_build_fields(report)) if options.json else "\n".join(_write_lines(report)))
    return INTACT if report.intact else WRONG


def _check_package(file: Path, options: argparse.Namespace) -> int:
    trust = PackageTrust(
        root_keys=options.root_key,
        sources=_read_sources(options),
        verdict_keys=options.verdict_key,
        installation=options.installation or None,
        noted=options.noted,
        takes_selected=options.only_selected,
        takes_gone=options.gone,
    )
    checked = check_package(PackageFile(file), trust, options.processes)
    if options.json:
        fields = {"digest": checked.manifest.digest, "selected": checked.selected}
        statements = {"statements": checked.statements}
        print(write_json_line(_build_fields(checked.report) | fields | statements))
    else:
        print("\n".join([*map(ascii, checked.statements), *_write_lines(checked.report)]))
    return INTACT if checked.report.intact else WRONG


def _check_proof(file: Path, options: argparse.Namespace) -> int:
    try:
        result = check_proof(file.read_bytes(), _read_signers(options))
    except (OSError, UnusableKey, ImportError) as error:
        print(f"cannot read {file}: {error}", file=sys.stderr)
        return UNREADABLE
    lines = " ".join(map(ascii, result.lines))
    word = "it holds" if result.holds else "IT DOES NOT HOLD"
    print(write_json_line(asdict(result)) if options.json else f"{word}: {lines}")
    return INTACT if result.holds else WRONG


def _build_parser() -> argparse.ArgumentParser:
    package = (__package__ or "verifier").rpartition(".")[2]
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        description="Check an export of the ledger, as `sluice ledger export FILE` writes it (hashes, links, "
        "numbers, places, ids), or an audit package, as `sluice audit export` does.",
        epilog="Exit codes: 0 intact, 1 something is wrong, 2 the file cannot be read.",
    )
    parser.add_argument("export", help="the file")
    parser.add_argument(
        "--verdict-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a public key (base64) that may have signed: each record must have a proof by one. Needs the "
        "package cryptography",
    )
    parser.add_argument(
        "--head-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a public key (base64) whose tree heads count, with @TIME for one that was replaced then: there "
        "must be heads, and all by one. Needs the package cryptography",
    )
    parser.add_argument(
        "--heads", action="append", default=[], metavar="FILE", help="tree heads that were kept elsewhere"
    )
    parser.add_argument(
        "--witness-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a public key (base64) of a witness: witnesses must have co-signed a head",
    )
    parser.add_argument("--witnesses", type=int, metavar="K", help="so many of them; else all")
    parser.add_argument(
        "--cosigned", action="append", default=[], metavar="FILE", help="heads that a witness co-signed"
    )
    parser.add_argument(
        "--proof",
        action="store_true",
        help="the file is a proof, as `sluice ledger prove` or `consistency` writes it",
    )
    parser.add_argument(
        "--root-key",
        action="append",
        default=[],
        metavar="KEY",
        help="of a package: a public root key (base64) of policy, with @TIME for one that was retired then",
    )
    parser.add_argument(
        "--noted", metavar="SHA256", help="of a package: its digest, as the export printed it"
    )
    parser.add_argument(
        "--only-selected", action="store_true", help="of a package: it may hold selected records alone"
    )
    parser.add_argument("--gone", action="store_true", help="of a package: inputs may have been gone")
    parser.add_argument("--processes", type=int, default=1, help="of a package: partitions checked at once")
    parser.add_argument(
        "--installation", default="", help="the id of the installation; for --verdict-key and --head-key"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object with every finding")
    return parser


def _read_signed_by(options: argparse.Namespace) -> SignedBy | None:
    return SignedBy(options.verdict_key, options.installation) if options.verdict_key else None


def _read_signers(options: argparse.Namespace) -> HeadSigners | None:
    return HeadSigners(options.head_key, options.installation or None) if options.head_key else None


def _read_sources(options: argparse.Namespace) -> HeadSources:
    copies, cosigned = (tuple(map(Path, names)) for names in (options.heads, options.cosigned))
    witnesses = find_witnesses(options.witness_key, options.witnesses)
    return HeadSources(_read_signers(options), copies, witnesses, cosigned)


def _build_fields(report: Report) -> dict[str, object]:
    return {
        "intact": report.intact,
        "records": report.records,
        "heads": None if report.heads is None else asdict(report.heads),
        "partitions": {str(number): asdict(summary) for number, summary in report.partitions.items()},
        "findings": [asdict(finding) for finding in report.findings],
    }


def write_json_line(fields: dict[str, object]) -> str:
    """Write one line of JSON in printable ASCII: a forged record must not move a terminal's cursor."""
    return json.dumps(fields).replace("\x7f", "\\u007f")


def _write_lines(report: Report) -> list[str]:
    chains = [
        f"partition {number}: {write_count(chain.records, 'record')}, {chain.first or '-'} to "
        f"{chain.last or '-'}, head {chain.head}"
        for number, chain in report.partitions.items()
    ]
    summary = "intact" if report.intact else f"NOT INTACT, {write_count(len(report.findings), 'finding')}"
    return [
        *chains,
        describe_heads(report),
        *map(_write_line, report.findings),
        f"{write_count(report.records, 'record')}: {summary}",
    ]


def _write_line(finding: LedgerFinding) -> str:
    number = "-" if finding.sequence is None else finding.sequence
    location = f"{finding.topic}/{finding.partition}" + (
        "" if finding.offset is None else f"/{finding.offset}"
    )
    return f"{finding.code} in chain {finding.partition} at number {number} ({location}): {finding.message!r}"


if __name__ == "__main__":
    sys.exit(main())

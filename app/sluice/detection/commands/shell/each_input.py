"""Commands that run another one for each of many inputs: find, xargs, parallel (their manual pages)."""

from __future__ import annotations

import posixpath
import re
import shlex
from itertools import islice, pairwise, product

from sluice.detection.commands.shell.wrappers import REPLACED, Wrapper, option_at

_PARALLEL_VALUES = (
    "-a --arg-file --arg-file-sep --arg-sep --basefile --bf --basenamereplace --bnr "
    "--basenameextensionreplace --bner --block --block-size --block-timeout --bt -C --colsep --color-failed "
    "--compress-program --decompress-program --ctag --ctagstring --ctag-string -d --delimiter "
    "--dirnamereplace --dnr --delay -E --env --extensionreplace --er --filter --group-by --halt "
    "--halt-on-error --header -I -J --profile -j --jobs --joblog -L --limit --load --line-sep "
    "--max-args -n --max-chars -s --max-lines-per-job -N --max-replace-args --max-procs -P --memfree "
    "--memsuspend --minversion --minimum-version --nice --parens --plus-sep --process-slot-var --recend "
    "--recstart --res --results --result --retries --return --rpl --rsync-opts -S --sshlogin "
    "--semaphore-name --id --semaphoretimeout --semaphore-timeout --st --seqreplace --shard --bin "
    "--shellquote-level "
    "--slotreplace --slf --sshloginfile --sql --sql-master --sql-worker --sql-and-worker --sqlmaster "
    "--sqlworker --sqlandworker --ssh --sshdelay --tagstring --tag-string --tempdir --tmpdir --term-seq "
    "--termseq --timeout --tmux-pane --tf --transferfile --transfer-file --trc --trim --wd --workdir "
    "--work-dir"
)
PARALLEL = Wrapper(
    frozenset(_PARALLEL_VALUES.split()),
    text=True,
    stops=frozenset({"--dry-run", "--dryrun"}),
    attached="iel",
    shortens=True,
)
"""GNU parallel(1), whose `sem` takes the same options."""
MOST_JOBS = 16
"""Commands of one `parallel` that are read: products of inputs grow fast, the first ones show the kind."""
_SOURCES = frozenset({":::", ":::+", "::::", "::::+"})
_FIELD = re.compile(r"\{(?:(-?\d+)?(//|/\.|/|\.\.|\.)?|#|%)\}")
"""`{}`, `{.}`, `{/}`, `{//}`, `{/.}`, the same of one source as `{2/}`, the number of the job."""


def parallel_text(args: tuple[str, ...], stdin: str | None) -> str | None:
    """The commands of `parallel` as shell text, a line each; None if it only says what it would run.

    Without a command each input is one. Inputs that the text does not tell leave `{}` in the command.
    """
    after, replaced = 0, REPLACED
    while after < len(args) and args[after][:1] == "-" and args[after] != "--":
        option = option_at(PARALLEL, args, after)
        if option.flag in PARALLEL.stops:
            return None
        if option.flag in ("-I", "-i", "--replace"):
            replaced = option.value or REPLACED
        after = option.after
    after += args[after : after + 1] == ("--",)
    end = next((at for at in range(after, len(args)) if args[at] in _SOURCES), len(args))
    command, sources = " ".join(args[after:end]), _sources(args[end:])
    if not sources and stdin is not None:
        sources = [stdin.splitlines()]
    jobs = islice(product(*sources), MOST_JOBS) if sources else ()
    return "\n".join(_job(command, list(inputs), replaced) for inputs in jobs) or command


def _sources(args: tuple[str, ...]) -> list[list[str]]:
    """The inputs of each `:::`; those of files are not known."""
    sources: list[list[str]] = []
    is_file = False
    for arg in args:
        if arg in _SOURCES:
            is_file = arg.startswith("::::")
            sources.append([])
        elif not is_file:
            sources[-1].append(arg)
    return [inputs for inputs in sources if inputs]


def _job(command: str, inputs: list[str], replaced: str) -> str:
    if not command:
        return " ".join(inputs)

    def field(match: re.Match[str]) -> str:
        if match[0] in ("{#}", "{%}"):
            return "1"
        number = int(match[1] or 0)
        chosen = inputs if not number else inputs[number - (number > 0) :][:1]
        return " ".join(shlex.quote(_part(part, match[2] or "")) for part in chosen)

    whole = " ".join(map(shlex.quote, inputs))
    text = command if replaced == REPLACED else command.replace(replaced, whole)
    text = _FIELD.sub(field, text)
    return f"{command} {whole}" if text == command else text


def _part(path: str, what: str) -> str:
    if what == "//":
        return posixpath.dirname(path) or "."
    name = posixpath.basename(path) if what[:1] == "/" else path
    return posixpath.splitext(name)[0] if what[-1:] == "." else name


def insert_inputs(words: tuple[str, ...], replaced: str, stdin: str) -> tuple[str, ...]:
    """The command of `xargs` with the inputs that are known: in the place of `replaced`, or at the end."""
    inputs = stdin.split()
    if inputs and replaced and any(replaced in word for word in words):
        return fill(words, inputs, replaced)
    return (*words, *inputs)


_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"})
_OTHERWISE = frozenset({"!", "-not", "-o", "-or", ",", "(", ")", "-prune,"})
"""With one of these, what has another name may pass too."""
_ENDS = frozenset({";", "+"})
_NARROWING = frozenset(
    {
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-regex",
        "-iregex",
        "-type",
        "-user",
        "-group",
        "-size",
        "-mtime",
        "-atime",
        "-ctime",
        "-mmin",
        "-newer",
        "-perm",
        "-empty",
        "-maxdepth",
        "-nouser",
        "-links",
        "-inum",
        "-samefile",
        "-lname",
        "-wholename",
    }
)


def list_found_commands(args: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Each command as words, `{}` replaced by what is found: the place that is searched, or a file in it.

    Source: find(1), -exec and -delete.
    """
    commands = []
    index = 0
    while index < len(args):
        index += 1
        if args[index - 1] in _ACTIONS:
            end = next((at for at in range(index, len(args)) if args[at] in _ENDS), len(args))
            commands.append(fill(args[index:end], list_found(args[: index - 1])))
            index = end
    return [words for words in commands if words]


def list_found(tests: tuple[str, ...]) -> list[str]:
    """What passes the tests: `./__pycache__` where one name is asked for and nothing else may pass."""
    roots = _roots(tests)
    if not _NARROWING.intersection(tests):
        return roots
    names = [value for flag, value in pairwise(tests) if flag in ("-name", "-iname")]
    sure = len(names) == 1 and _OTHERWISE.isdisjoint(tests)
    return [root.rstrip("/") + "/" + (names[0] if sure else "{}") for root in roots]


def _roots(args: tuple[str, ...]) -> list[str]:
    roots: list[str] = []
    for arg in args:
        if arg[:1] in ("-", "(", "!"):
            if roots or len(arg) > 2:  # noqa: PLR2004 - `find -L /etc`: one-letter options come before the places
                break
            continue
        roots.append(arg)
    return roots or ["."]


def fill(words: tuple[str, ...], inputs: list[str], replaced: str = REPLACED) -> tuple[str, ...]:
    """The words with what is found in the place of a word `replaced`; within a word, with the first."""
    filled: list[str] = []
    for word in words:
        if word == replaced:
            filled.extend(inputs)
        else:
            filled.append(word.replace(replaced, inputs[0]))
    return tuple(filled)

"""What each program, statement and name is known to do: the tables of the reader of effects.

A program stands here with the options that leave it what it is said to be, and how many names may follow;
what is not here is not understood. (Manuals of GNU coreutils, findutils, git and curl, of the AWS CLI,
gcloud, az, gh and kubectl.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Form(NamedTuple):
    """The words that a program may be given: options alone and with a value, and how many names at most."""

    flags: frozenset[str]
    values: frozenset[str]
    names: int


class Words(NamedTuple):
    """What a command was given, by its form: names in their order, options with their values ("" "
    "for none)."""

    names: tuple[str, ...]
    options: tuple[tuple[str, str], ...]

    def value(self, *options: str) -> str | None:
        """The value of the first of these options that is given; None where none is."""
        return next((value for option, value in self.options if option in options), None)


ANY = 99


def form(words: str, names: int = ANY) -> Form:
    """`-abc`: letters; `-n=`, `--max=`: with a value; `--all`: without."""
    flags, values = set(), set()
    for word in words.split():
        if word.endswith("="):
            values.add(word[:-1])
        elif word.startswith("--"):
            flags.add(word)
        else:
            flags.update(f"-{character}" for character in word[1:])
    return Form(frozenset(flags), frozenset(values), names)


def parse_words(args: Sequence[str], form: Form) -> Words | None:
    """The words by the form; None where one is not of it. No option is taken by a part of its name."""
    names: list[str] = []
    options: list[tuple[str, str]] = []
    left = iter(args)
    for word in left:
        if word == "--":
            names += left
        elif word.startswith("--"):
            name, sign, value = word.partition("=")
            if name in form.values:
                options.append((name, value if sign else next(left, "")))
            elif name in form.flags and not sign:
                options.append((name, ""))
            else:
                return None
        elif word.startswith("-") and word != "-":
            if not _parse_letters(word, form, left, options):
                return None
        else:
            names.append(word)
    return Words(tuple(names), tuple(options)) if len(names) <= form.names else None


def _parse_letters(word: str, form: Form, left: Iterator[str], options: list[tuple[str, str]]) -> bool:
    if word in form.values:
        options.append((word, next(left, "")))
        return True
    for at, character in enumerate(word[1:], 1):
        option = f"-{character}"
        if option in form.values:
            options.append((option, word[at + 1 :] or next(left, "")))
            return True
        if option not in form.flags:
            return False
        options.append((option, ""))
    return True


# Programs that only read

CONTENT: Mapping[str, Form] = {
    "cat": form("-AbeEnstTuv --number --show-all"),
    "head": form("-qvz0123456789 -n= -c= --lines= --bytes="),
    "tail": form("-qvzfF0123456789 -n= -c= --lines= --bytes= --follow"),
    "nl": form("-b= -w= -s="),
    "tac": form("-"),
    "wc": form("-clLmw --lines --words --bytes --chars"),
    "sort": form("-bdfgiMhnRrVcCmsuz -k= -t= --key= --reverse --unique --numeric-sort"),
    "uniq": form("-cdDiuz -f= -s= -w= --count --repeated", 1),
    "cut": form("-sz -b= -c= -d= -f= --fields= --delimiter="),
    "tr": form("-cCdst --delete --squeeze-repeats", 2),
    "grep": form(
        "-abcEFGhHiIlLnopPqsvwxz0123456789 -A= -B= -C= -m= -e= --color --colour --line-number "
        "--ignore-case "
        "--count --only-matching --include= --exclude= --exclude-dir= -rR --recursive --max-count="
    ),
    "egrep": form("-abchHiIlLnoqsvwx -A= -B= -C= -m= -e="),
    "rg": form("-cFhHiIlLnNopqsSvwxU -A= -B= -C= -m= -e= -g= -t= -T= --files --glob= --type="),
    "diff": form("-abBiNqrsuwy -U= --brief --unified --recursive", 2),
    "cmp": form("-bls", 2),
    "comm": form("-123", 2),
    "md5sum": form("-bt"),
    "sha1sum": form("-bt"),
    "sha256sum": form("-bt"),
    "sha512sum": form("-bt"),
    "cksum": form("-"),
    "jq": form("-cCeMnrRsS --compact-output --raw-output"),
    "column": form("-t -s="),
    "od": form("-cbxv -A= -t= -N="),
    "hexdump": form("-Cv -n="),
    "xxd": form("-bup -l= -s= -c=", 1),
    "strings": form("-a -n="),
    "rev": form("-"),
    "fold": form("-s -w="),
    "paste": form("-s -d="),
    "zcat": form("-"),
    "sed": form("-nEr", 2),
}
"""Programs that print what is in files, or in what is fed to them."""
LOOKS: Mapping[str, Form] = {
    "ls": form(
        "-1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ --all --almost-all --color --human-readable --recursive "
        "--color= --sort= --time-style="
    ),
    "stat": form("-fLt -c= --format="),
    "file": form("-bihLk --mime-type --brief"),
    "du": form("-abchHkLmsxD -d= --max-depth= --human-readable --summarize --exclude="),
    "df": form("-ahHiklPT -t= --human-readable"),
    "tree": form("-adfilpshugDFNqr -L= -I= -P="),
    "basename": form("-as"),
    "dirname": form("-z"),
    "realpath": form("-esmLP"),
    "readlink": form("-efmn"),
    "pwd": form("-LP", 0),
    "test": form("-abcdefghkLnprsStuwxzGNOo"),
    "[": form("-abcdefghkLnprsStuwxzGNOo"),
}
"""Programs that say what there is, and nothing of what is in it."""
SAYS: Mapping[str, Form] = {
    "printf": form("", ANY),
    "man": form("", 2),
    "dig": form("-46 -t= -x= -p=", 5),
    "host": form("-46at -v", 2),
    "nslookup": form("", 2),
    "date": form("-uR -d= -I --date= --utc --rfc-3339= --iso-8601"),
    "cal": form("-13jmy", 2),
    "whoami": form("", 0),
    "id": form("-Ggnru", 1),
    "groups": form("", 1),
    "who": form("-abdHlmqrstTu", 0),
    "uname": form("-amnoprsvi --all", 0),
    "uptime": form("-ps", 0),
    "nproc": form("--all", 0),
    "arch": form("", 0),
    "hostname": form("-fisdAI", 0),
    "lscpu": form("", 0),
    "lsblk": form("-abdfilmprtS", ANY),
    "free": form("-bghkmt -s= -c=", 0),
    "ps": form("-AadefFjlHTy -o= -u= -p= -C= -U= --sort= --sort --no-headers --pid= --user=", 1),
    "pgrep": form("-aflnoxv -u=", 1),
    "vmstat": form("-adfmnst", 2),
    "iostat": form("-cdhkmtxyz", 2),
    "netstat": form("-aelnoprstuvW", 0),
    "ss": form("-aelmnoprstux4 -6", 0),
    "which": form("-a"),
    "type": form("-afptP"),
    "whereis": form("-bms"),
    "seq": form("-w -s=", 3),
    "true": form("", ANY),
    "false": form("", ANY),
    "sleep": form("", 1),
    "expr": form("", ANY),
    "nginx": form("-tvV", 0),
    "lsb_release": form("-acdirs", 0),
    "locale": form("-a", 0),
    "getconf": form("-a", 2),
    "users": form("", 0),
    "w": form("-fhosu", 1),
    "last": form("-aFiRwx -n=", 2),
    "dmesg": form("-HkrTux -l= --level= --human --ctime", 0),
    "journalctl": form(
        "-bekfrx -g= -n= -o= -p= -u= --disk-usage --follow --grep= --lines= --list-boots --no-pager "
        "--output= --priority= --since= --unit= --until=",
        0,
    ),
    "lsmod": form("", 0),
    "lspci": form("-kmntDv -d= -s=", 0),
    "lsusb": form("-tv -d= -s=", 0),
    "lsns": form("-l", 0),
    "lsmem": form("-a", 0),
    "findmnt": form("-aDl -t=", 1),
    "mount": form("-l", 0),
    "ifconfig": form("-as", 1),
    "route": form("-46Cen", 0),
    "ping": form("-46nq -c= -i= -s= -w= -W=", 1),
    "traceroute": form("-46nIT -m= -p= -q= -w=", 2),
    "tracepath": form("-46n -m=", 1),
    "whois": form("-H -h=", 1),
    "pidof": form("-sx"),
    "pstree": form("-ahnpsu", 1),
    "top": form("-bcHi -d= -n= -o= -p= -u=", 0),
    "sysctl": form("-aeNn --all --values"),
    "crontab": form("-l", 0),
    "atq": form("", 0),
    "dpkg": form("-lLsS --list --listfiles --search --status"),
    "dpkg-query": form("-lLsSW -f= --list --show --showformat="),
    "rpm": form("-qacilR --all --info --list"),
    "pacman": form("-Qdeiklmnoqstu"),
    "pg_isready": form("-q -d= -h= -p= -t= -U=", 0),
    "dotnet": form("--info --list-runtimes --list-sdks", 0),
}
"""Programs that print what they are given, or how the machine is."""
DEMANDED: Mapping[str, tuple[str, ...]] = {
    "ping": ("-c",),
    "top": ("-b",),
    "crontab": ("-l",),
    "dpkg": ("-l", "-L", "-s", "-S", "--list", "--listfiles", "--search", "--status"),
    "rpm": ("-q",),
    "pacman": ("-Q",),
    "dotnet": ("--info", "--list-runtimes", "--list-sdks"),
}
"""Options without which some of all these do something else."""
NAMED_PLAINLY = vocabulary("sysctl rpm")
"""Those that take more than a name in the place of one."""
NAMING = vocabulary("dig host nslookup man pgrep")
"""Those of them that are told names on their line; without one they read what they are fed."""
JQ_REACHES = re.compile(r"\$|\b(?:env|include|import|inputs?|input_filename|debug|halt|getpath|modulemeta)\b")
PS_OF_BSD = re.compile(r"a?u?x?|aux?w*|ax")
WITH_SCRIPT = vocabulary("grep egrep rg jq sed")
"""Those of them whose first name is what they look for or do."""
SED_PRINTS = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p")
DATE_NAME = re.compile(r"\+.*")
FIND_TESTS = vocabulary(
    "-name -iname -path -ipath -wholename -type -size -mtime -atime -ctime -mmin -amin -cmin",
    "-newer -maxdepth",
    "-mindepth -perm -user -group -regex -iregex -links -inum -samefile -printf -uid -gid",
)
FIND_WORDS = vocabulary(
    "-print -print0 -ls -empty -not ! -o -a -and -or ( ) -prune -xdev -mount -depth -readable "
    "-writable -executable -daystart -nouser -nogroup -true -false -quit"
)

# Programs with verbs

SHOWS = "--json --no-headers --quiet -q -v --verbose --no-color -h --help"
CHOOSES = (
    "-o= --output= --format= --limit= --filter= --sort-by= --page-size= --page= -n= --namespace= "
    "--context= --project= "
    "--region= --zone= --profile= --name= --id= --repo= -R= -p= --tenant= --organization= --org= --cluster= "
    "--location= --resource-group= -g= --label= --state= --branch= --author= --since= --service-name="
)
OF_CLOUD = form(f"{SHOWS} {CHOOSES}", 2)
READING_VERBS = vocabulary(
    "list ls lsl lsd lsf du describe show status info stats lookup count search exists get"
)
CLOSED_GROUPS = vocabulary(
    "auth env environment environments kms keyvault iam sts ssm secretsmanager login token tokens keys sas"
)
ASKING_VERBS = vocabulary("describe list get lookup count head search find show view read query")
CLI_NAME = re.compile(r"[A-Za-z0-9][\w./@:-]*")
_GROUPS = vocabulary(
    "pr issue repo workflow release mr stream consumer service backup schedule pipeline project",
    "app flag version",
    "node job volume network container image cache gist label org state stack compute sql",
    "storage logging",
    "functions vm group network disk webapp aks acr account monitor instance cluster bucket",
    "dataset topic subscription database server zone record domain customer charge invoice index flag",
    "toggle feature segment deployment context traffic-type catalog dns-record product plan collection table",
    "pool replica firewall subnet address route router certificate region location load-balancer",
    "machine-type instance-group public-ip",
)


def is_group(word: str) -> bool:
    """Whether a word names things, in the singular or the plural, as those before a verb do."""
    return word in _GROUPS or word.removesuffix("s") in _GROUPS or word.removesuffix("es") in _GROUPS


CLIS: Mapping[str, int] = {
    **dict.fromkeys(
        vocabulary(
            "helm vault borg mc heroku oc rabbitmqadmin npm pnpm pip pip3 conda deck",
        ),
        0,
    ),
    **dict.fromkeys(
        vocabulary(
            "gh glab velero nats ldcli fastly circleci wrangler stripe algolia flipt unleash flyctl podman",
            "consul nomad pulumi datadog-ci apigeecli",
        ),
        1,
    ),
    "doctl": 3,
    "gcloud": 4,
    "az": 4,
}
"""Programs with verbs, and how many words for groups of things may stand before the verb."""
_KUBECTL, _COMPOSE, _NPM = "-n= --namespace= --context= ", "--format= --filter= -f= --no-trunc ", "-g --json "
VERBS: Mapping[str, Mapping[str, Form]] = {
    "kubectl": {
        "get": form(
            f"{_KUBECTL} -Aw --all-namespaces --show-labels --no-headers --show-kind -o= --output= -l= "
            "--selector= --sort-by= --field-selector=",
            3,
        ),
        "describe": form(f"{_KUBECTL} -l= --selector=", 3),
        "logs": form(f"{_KUBECTL} -fp -c= --container= --tail= --since= --previous --timestamps", 2),
        "top": form(f"{_KUBECTL} -A --sort-by=", 2),
        "explain": form("--recursive", 1),
        "version": form("--client -o= --output=", 0),
        "api-resources": form("--namespaced= -o=", 0),
        "cluster-info": form("--context=", 0),
    },
    "docker": {
        "ps": form(f"{_COMPOSE} -anlqs --all", 0),
        "images": form(f"{_COMPOSE} -aq --all", 1),
        "logs": form("-ft --follow --timestamps --tail= --since= -n=", 1),
        "stats": form("-a --no-stream --format=", 3),
        "top": form("", 1),
        "version": form("--format=", 0),
        "info": form("--format=", 0),
        "port": form("", 2),
        "history": form("--no-trunc", 1),
    },
    "systemctl": {
        verb: form("-la --all --no-pager --full -n= --type= --state=", names)
        for verb, names in (
            *((verb, 1) for verb in ("status", "is-active", "is-enabled", "is-failed", "list-dependencies")),
            *(
                (f"list-{things}", 0)
                for things in ("units", "unit-files", "timers", "sockets", "paths", "jobs")
            ),
            *((verb, 0) for verb in ("is-system-running", "get-default")),
        )
    },
    "rabbitmqctl": {
        verb: form("-p= -q --vhost=", 6)
        for verb in vocabulary(
            "status list_queues list_exchanges list_bindings list_connections list_channels list_consumers",
            "list_vhosts cluster_status",
        )
    },
    "terraform": {"version": form("", 0), "validate": form("", 0)},
    "rclone": {
        verb: form("--max-depth= --json", 1)
        for verb in vocabulary("ls lsd lsl lsf size about listremotes version")
    },
    "helm": {
        "list": form("-A -n= --namespace= --all-namespaces", 0),
        "status": form("-n= --namespace=", 1),
        "history": form("-n= --namespace=", 1),
        "version": form("--short", 0),
    },
    "npm": {
        "ls": form(f"{_NPM} --global --depth= --all", 1),
        "list": form(f"{_NPM} --global --depth= --all", 1),
        "view": form(_NPM, 2),
        "outdated": form(_NPM, 1),
    },
    "pip": {"list": form("--outdated --format=", 0), "show": form("", 3), "freeze": form("", 0)},
    "cargo": {"tree": form("--depth= -p= -e=", 0)},
}
"""Programs of which each verb has its own form; the verb is the first word behind options of the whole."""
BEFORE_VERBS = form(
    "-P --no-pager --no-cli-pager -n= --namespace= --context= --project= --region= --profile= "
    "--output= -R= --repo=",
    0,
)
TRIES: Mapping[tuple[str, ...], tuple[Form, tuple[str, ...]]] = {
    **dict.fromkeys(
        (("kubectl", verb) for verb in ("apply", "create", "delete", "patch", "replace", "scale", "label")),
        (form("--all --dry-run= -f= -k= -l= -n= --namespace= -o= --output= --replicas="), ("--dry-run",)),
    ),
    **dict.fromkeys(
        (("helm", verb) for verb in ("uninstall", "rollback")),
        (form("--dry-run -n= --namespace= --debug", 2), ("--dry-run",)),
    ),
    **dict.fromkeys(
        (("aws", "s3", verb) for verb in ("cp", "mv", "rm", "sync")),
        (
            form(
                "--delete --dryrun --exclude= --include= --profile= --recursive --region= --size-only "
                "--exact-timestamps",
                2,
            ),
            ("--dryrun",),
        ),
    ),
    **dict.fromkeys(
        (("rclone", verb) for verb in ("copy", "delete", "move", "purge", "sync")),
        (
            form("-nPv --dry-run --exclude= --include= --max-age= --min-age= --progress --verbose", 2),
            ("-n", "--dry-run"),
        ),
    ),
    **dict.fromkeys(
        (
            ("apt-get", verb)
            for verb in ("autoremove", "dist-upgrade", "install", "purge", "remove", "upgrade")
        ),
        (form("-qsVy --dry-run --simulate --yes"), ("-s", "--dry-run", "--simulate")),
    ),
}
"""What changes something, and with one of the options named only says what it would do."""
TRIED_NAME = re.compile(r"\.{0,2}/?[A-Za-z0-9][\w./@:*=-]*|\.")
TRIES_WITH = vocabulary("client server")
"""Values of `--dry-run` with which nothing is done."""
OF_KAFKA = vocabulary("kafka-topics kafka-consumer-groups kafka-acls")
KAFKA = form("--list --describe --all-groups --bootstrap-server= --topic= --group=", 0)
AWS_VERBS = re.compile(
    r"(?:describe|list|head|lookup)-[a-z0-9-]+|ls|help|get-(?:bucket|cost|metric-data|metric-statistics|role|user|group|"
    r"policy|query-results|log-events|resources|template|caller-identity|rest-api|usage|insight)[a-z-]*"
)
"""Of `get-` those that give neither credentials nor code, and write no file."""
AWS_VALUES = re.compile(r"--(?!en|cli|ca|no|gen|de|out-?f|outf)[a-z][a-z0-9-]*")
AWS_ALONE = frozenset(["--no-cli-pager", "--no-paginate", "--recursive", "--human-readable", "--summarize"])
ANSWERS = vocabulary(
    "python python3 node npm go java javac ruby perl php rustc cargo gcc make cmake mvn gradle",
    "docker kubectl helm",
    "terraform aws gcloud az gh git psql mysql redis-cli curl wget jq rg bash ssh pip pip3",
    "haproxy nginx traefik kong",
)
"""Programs that say their version, asked for nothing else."""
ASKS_VERSION = frozenset(["--version", "--help"])
VERSION_VERBS = vocabulary("go docker kubectl helm terraform")
"""Programs of which the bare word `version` is a verb; of others it may be a script, a target or a host."""

# Programs that change something

CHANGES: Mapping[str, tuple[Literal["adds", "writes", "deletes"], Form]] = {
    "mkdir": ("adds", form("-pv")),
    "touch": ("adds", form("-acm")),
    "cp": ("writes", form("-afinprRuv")),
    "mv": ("writes", form("-finuv")),
    "tee": ("writes", form("-a")),
    "rm": ("deletes", form("-fiIrRvd")),
    "rmdir": ("deletes", form("-pv")),
    "unlink": ("deletes", form("", 1)),
}
WRITING_REDIRECTS = frozenset([">", ">>", ">|", "&>", "&>>", ">&"])
DUPLICATES = frozenset([">&", "<&"])
CURL = form(
    "-IsSLvikfgN46 --head --silent --show-error --location --verbose --include --fail "
    "--compressed --get -G -H= "
    "--header= -A= --user-agent= -m= --max-time= --connect-timeout= --retry= -X= --request= -o= "
    "--output= -r= --range="
)
CHANGING_VERBS = vocabulary(
    "delete remove drop destroy purge erase wipe create add new set put post update edit patch",
    "apply replace upload",
    "push send publish deploy start stop restart kill cancel enable disable install uninstall",
    "upgrade import restore",
    "reset rollback revert move copy sync write clear flush rotate revoke grant attach detach",
    "invoke trigger submit",
    "approve merge close open lock unlock rename export schedule transfer pay buy charge refund",
    "modify change",
)
CHANGING_ADDRESS = re.compile(
    r"(?i)[/._=-](?:{})(?:[/._?&-]|$)".format("|".join(sorted(CHANGING_VERBS | {"logout"})))
)
HIDDEN_ADDRESS = re.compile(r"/\.(?!well-known)")
SAFE_METHODS = vocabulary("GET HEAD OPTIONS")
SEARCHES = ("/_search", "/_msearch", "/_count")
"""Addresses that are read by a POST."""
OVERRIDES = re.compile(r"(?i)x-(?:http-)?method(?:-override)?\s*:|x-original|x-forwarded")
CLOSED_HOSTS = re.compile(
    r"169\.254\.\d+\.\d+|metadata(?:\.google\.internal)?|100\.100\.100\.200|[0-9a-fx:]*:[0-9a-fx:.]*|0.*|\d+"
)
"""Where clouds give a machine its credentials, however the address is written."""

RSYNC = form(
    "-avzrlptgoDhiPnxuc --dry-run --delete --progress --stats --compress --partial --checksum --exclude= "
    "--include= --archive --verbose",
    3,
)
"""With which it only says what it would do, between folders of this machine."""

GIT: Mapping[str, Form] = {
    "status": form("-sbvu --short --branch --porcelain --untracked-files="),
    "log": form(
        "-pn0123456789 --oneline --graph --all --stat --decorate --patch -n= --since= --until= --author= "
        "--grep= --format= --pretty= --max-count= --name-only --name-status --follow --no-merges"
    ),
    "diff": form("-pw --stat --cached --staged --name-only --name-status --word-diff --numstat --shortstat"),
    "show": form("-ps --stat --name-only --format= --oneline --name-status"),
    "blame": form("-wCM -L=", 2),
    "rev-parse": form("--abbrev-ref --short --show-toplevel --verify --is-inside-work-tree --git-dir", 2),
    "ls-files": form("-codmstz --others --exclude-standard --modified --deleted"),
    "describe": form("--tags --always --dirty --abbrev= --long", 1),
    "shortlog": form("-sne", 2),
    "reflog": form("-n=", 0),
    "merge-base": form("", 2),
    "count-objects": form("-vH", 0),
    "branch": form("-avr --all --list --remotes --show-current --verbose", 0),
    "tag": form("-l --list", 0),
    "remote": form("-v --verbose", 0),
    "check-ignore": form("-v"),
}
"""Subcommands that read."""
GIT_ADDS: Mapping[str, Form] = {
    "add": form("-Aunv --all --update"),
    "commit": form("-amqv -m= --all --message=", 0),
    "mv": form("-nv"),
    "switch": form("-cq --create", 1),
    "stash": form("-m= --message=", 2),
    "restore": form("--staged"),
}
GIT_DEMANDS: Mapping[str, tuple[str, ...]] = {
    "commit": ("-m", "--message"),
    "restore": ("--staged",),
    "checkout": ("-b",),
}
"""Options without which they do something else, or wait for an editor."""
GIT_NAMES: Mapping[str, Form] = {"branch": form("", 1), "tag": form("", 1), "checkout": form("-bq", 1)}
"""Subcommands with which a new name is made; a commit keeps what there was."""

WRAPPERS: Mapping[str, tuple[Form, int]] = {
    "timeout": (form("-s= -k= --signal= --kill-after= --foreground"), 1),
    "time": (form("-p"), 0),
    "nice": (form("-n="), 0),
    "ionice": (form("-c= -n="), 0),
    "stdbuf": (form("-i= -o= -e="), 0),
    "setsid": (form("-w"), 0),
    "command": (form(""), 0),
    "builtin": (form(""), 0),
}
"""Programs that run another one and nothing besides: their options, and names before the command."""
SHELLS = vocabulary("bash sh zsh dash")
RUNS_TEXT = vocabulary("-c -lc -ec -euc")
PROGRAM = re.compile(r"[a-z\[][a-z0-9_.+-]*|\[")
STANDARD_FOLDERS = frozenset(["", "/bin", "/usr/bin", "/usr/local/bin"])
HARMLESS_VARIABLES = re.compile(r"LANG|LC_[A-Z]+|TZ|NO_COLOR|TERM|AWS_(?:DEFAULT_)?REGION|AWS_PROFILE")
NOT_PLAIN = re.compile(
    r"[$`\\]|<\(|>\(|\{[^\s}]*(?:,|\.\.)|(?:^|[;&|(\n{]|\b(?:do|then|else)\s)\s*(?:for|select|function|coproc|case|"
    r"while|until)\b"
)
"""Expansions, loops and the like: a text that has one says more than its words do."""
QUOTED = re.compile(r"'[^'\n]*'|(\"[^\"\\\n]*\"|[^'\"\\#\n<]|<(?!<))")
"""What stands in single quotes, which a shell takes as it is; or a character or a double-quoted text."""
TAKES_TEXT = vocabulary(
    "cat curl cut date docker echo egrep find git grep head jq kubectl ls printf ps rg sed sort tail"
)
"""Programs that run, and expand, nothing of a text that they are given."""
OPTIONS = re.compile(r"-[\w=./,:@+ -]*")
"""Words that are no command, the first being an option."""
STARTS_IN = re.compile(r"\s*cd\s+(\S+)\s*&&")
LEAVES_LIST = re.compile(r"[;\n]|\|[|&]|(?<![&>])&(?![&>])")
"""What ends or leaves the list of `cd folder && ...`, behind which the folder may be another one."""

SECRET = re.compile(
    r"(?i)secrets?|passw(?:or)?ds?\b|passphrase|tokens?|credentials?|private[-_]?keys?|(?:access|api)[-_]?keys?|"
    r"id_(?:rsa|ed25519|ecdsa|dsa)|\.(?:pem|key|p12|pfx|kdbx|jks|gpg|asc|ppk|tfstate|htpasswd|ovpn)|shadow|sudoers|decrypt|"
    r"kubeconfig|environ|\bauth\b|cookies?\b|krb5|wp-config|appsettings|(?:^|[/.])env(?:[/.]|$)|wallet|keychain|keyring|vault|pg_authid|pg_hba|user_mapping"
)
"""Words of what nobody reads without a reason: who reads them keeps the tier of the call's type."""
OPEN_HIDDEN = vocabulary(".gitignore .gitattributes .dockerignore .editorconfig .github .gitlab-ci.yml .")
CLOSED_FOLDERS = re.compile(r"/(?:proc|dev|root|sys|run|boot|lost\+found)(?:/|$)")
OPEN_FILES = re.compile(r"/proc/(?:cpuinfo|meminfo|loadavg|uptime|version|mounts)|/dev/null")
GLOB = re.compile(r"[*?\[]")
NO_PATH = re.compile(r"[$`\\{}%\x00\n]|^[A-Za-z]:|^[-+]|://")
NO_ADDRESS = re.compile(r"[$`\\{}\[\]<>\s]")
FOLDER_WORDS = frozenset(["cwd", "workdir", "directory", "dir", "folder", "chdir", "wd", "pwd", "root"])
DATABASE_WORDS = frozenset(["database", "db", "dbname"])
INERT_WORDS = (
    FOLDER_WORDS
    | DATABASE_WORDS
    | vocabulary(
        "timeout ms s sec secs seconds millis milliseconds limit max rows results page size offset params",
        "args arguments argv command cmd commands query sql statement format output blocking wait id session",
        "request unit length chars flags options subcommand verb program",
    )
)
INERT_KEYS = frozenset(["run_in_background", "is_background", "background"])
"""Keys, and words of keys, that say how a command or a statement is run, or are joined to its line."""

SQL_CLIENTS: Mapping[str, Form] = {
    "psql": form("-AtqXx -c= --command= -h= -U= -d= -p= --host= --username= --dbname= --port=", 2),
    "mysql": form("-Bst -e= --execute= -h= -u= -P= -D= --host= --user= --port= --database=", 1),
}
READING_STATEMENTS = vocabulary("SELECT SHOW DESCRIBE DESC EXPLAIN VALUES TABLE WITH")
SQL_CHANGE = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) \w+ [^.]*")
"""A change of one table that has no schema or database before its name."""
SQL_DOUBTFUL = re.compile(r"\. \w+ \(")
"""A function of some schema."""
CLIENT_COMMANDS = re.compile(r"(?im)\\|^\s*go\s*$|^\s*[!:.]")
"""What clients of databases take for commands of their own."""
SQL_TEXT = vocabulary("-c --command -e --execute")
SQL_WRITES = re.compile(
    r"\b(?:INSERT|MERGE|INTO|DELETE|UPDATE|DROP|TRUNCATE|ALTER|CREATE|GRANT|REVOKE|CALL|EXEC|EXECUTE|COPY|ANALYZE)\b"
)
PURE_FUNCTIONS = vocabulary(
    "COUNT SUM AVG MIN MAX COALESCE NULLIF IFNULL ISNULL NVL IIF IF CAST CONVERT TRY_CAST SAFE_CAST ROUND",
    "FLOOR CEIL CEILING ABS MOD POWER SQRT EXP LN LOG SIGN GREATEST LEAST UPPER LOWER TRIM LTRIM RTRIM",
    "LENGTH LEN CHAR_LENGTH SUBSTR SUBSTRING LEFT RIGHT REPLACE CONCAT CONCAT_WS SPLIT_PART POSITION INSTR",
    "STRPOS REVERSE LPAD RPAD FORMAT TO_CHAR TO_DATE TO_TIMESTAMP TO_NUMBER DATE TIME TIMESTAMP DATETIME",
    "DATE_TRUNC DATE_PART DATE_ADD DATE_SUB DATEADD DATEDIFF DATE_DIFF DATE_FORMAT STRFTIME EXTRACT YEAR",
    "MONTH DAY HOUR MINUTE NOW CURRENT_DATE CURRENT_TIMESTAMP GETDATE CURDATE AGE INTERVAL ROW_NUMBER RANK",
    "DENSE_RANK NTILE LAG LEAD FIRST_VALUE LAST_VALUE PERCENT_RANK CUME_DIST STRING_AGG GROUP_CONCAT",
    "LISTAGG ARRAY_AGG JSON_AGG JSON_EXTRACT JSON_VALUE JSON_BUILD_OBJECT JSON_OBJECT UNNEST STDDEV",
    "VARIANCE VAR_POP STDDEV_POP PERCENTILE_CONT PERCENTILE_DISC MEDIAN MODE CORR EVERY BOOL_AND BOOL_OR",
    "DISTINCT OVER PARTITION IN EXISTS ANY ALL SOME VALUES ON USING AND OR NOT WHERE HAVING WHEN THEN ELSE",
    "FROM JOIN AS BY SELECT UNION EXCEPT INTERSECT BETWEEN LIKE FILTER WITHIN GROUP ROLLUP CUBE SETS",
    "GROUPING DECIMAL NUMERIC VARCHAR CHAR REGEXP_REPLACE REGEXP_MATCHES REGEXP_LIKE CHR ASCII INITCAP ROW",
    "ARRAY CASE LIMIT TOP LATERAL GENERATE_SERIES WITH = < > + - * / || , .",
)
"""Functions of SQL that do nothing but compute, and words that a parenthesis may follow."""

# Tools that read or change one file

FILES = vocabulary("file files editor")
"""One of these words stands in the names of such tools,"""
FILE_TOOLS = FILES | vocabulary("text str string in the a to tool")
"""and besides the verb nothing but these."""
FILE_VERBS: Mapping[str, Literal["reads", "writes", "deletes"]] = {
    **dict.fromkeys(vocabulary("read view show open"), "reads"),
    **dict.fromkeys(vocabulary("create write save edit append insert replace update"), "writes"),
    "delete": "deletes",
    "remove": "deletes",
}
FILE_KEYS = vocabulary("path file filepath filename targetfile")
TEXT_KEYS = vocabulary(
    "command content contents text filetext body oldstr newstr oldstring newstring oldtext newtext",
    "insertline inserttext viewrange line startline endline offset limit encoding replaceall overwrite",
    "description explanation",
)
"""Keys, without what parts their words, of what is to be read or written there, and how."""

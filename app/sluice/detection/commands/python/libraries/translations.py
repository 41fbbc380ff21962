"""Library calls as the commands that they stand for.

A row: the call with its parameters in their order, then a command line whose words name them; `{self}` is the
object, `{every*}` all arguments. What is not given or not known is a hole in its word. Sources: the reference
documentation of the libraries named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.python.python_values import PythonValue, flags, merged

if TYPE_CHECKING:
    from sluice.detection.commands.python.libraries.called import Called
    from sluice.detection.commands.shell import Command

TRANSLATIONS: dict[str, str] = {
    "os.rmdir(path)": "rmdir {path}",
    "os.removedirs(name)": "rmdir -p {name}",
    "os.rename(src, dst)": "mv {src} {dst}",
    "os.renames(old, new)": "mv {old} {new}",
    "os.replace(src, dst)": "mv {src} {dst}",
    "os.link(src, dst)": "ln {src} {dst}",
    "os.symlink(src, dst)": "ln -s {src} {dst}",
    "os.truncate(path, length)": "truncate -s {length} {path}",
    "os.chmod(path, mode)": "chmod {mode} {path}",
    "os.lchmod(path, mode)": "chmod {mode} {path}",
    "os.chown(path, uid, gid)": "chown {uid}:{gid} {path}",
    "os.lchown(path, uid, gid)": "chown {uid}:{gid} {path}",
    "os.chflags(path, flags)": "chflags {flags} {path}",
    "os.mkfifo(path)": "mkfifo {path}",
    "os.chroot(path)": "chroot {path}",
    "os.kill(pid, sig)": "kill -{sig} {pid}",
    "os.killpg(pgid, sig)": "kill -{sig} -- -{pgid}",
    "os.putenv(key, value)": "export {key}={value}",
    "os.listdir(path)": "ls {path}",
    "shutil.copy(src, dst)": "cp {src} {dst}",
    "shutil.copy2(src, dst)": "cp {src} {dst}",
    "shutil.copyfile(src, dst)": "cp {src} {dst}",
    "shutil.copytree(src, dst)": "cp -r {src} {dst}",
    "shutil.move(src, dst)": "mv {src} {dst}",
    "shutil.chown(path, user, group)": "chown {user}:{group} {path}",
    "shutil.make_archive(base_name, format, root_dir)": "tar -cf {base_name} {root_dir}",
    "pathlib.Path().rmdir()": "rmdir {self}",
    "pathlib.Path().rename(target)": "mv {self} {target}",
    "pathlib.Path().replace(target)": "mv {self} {target}",
    "pathlib.Path().symlink_to(target)": "ln -s {target} {self}",
    "pathlib.Path().hardlink_to(target)": "ln {target} {self}",
    "pathlib.Path().chmod(mode)": "chmod {mode} {self}",
    "psutil.Process().suspend()": "kill -stop {self}",
    "tarfile.open().add(name)": "tar -cf archive.tar {name}",
    "zipfile.ZipFile().write(filename)": "zip archive.zip {filename}",
    "urllib.request.urlretrieve(url, filename)": "curl {url} -o {filename}",
    "wget.download(url, out)": "wget {url} -O {out}",
    "gdown.download(url, output)": "wget {url} -O {output}",
    "urllib.request.urlopen(url)": "curl {url}",
    "requests.get(url)": "curl {url}",
    "requests.head(url)": "curl -I {url}",
    "requests.options(url)": "curl -X OPTIONS {url}",
    "requests.delete(url)": "curl -X DELETE {url}",
    "smtplib.SMTP().sendmail(sender, to, message)": "sendmail {to}",
    "smtplib.SMTP().send_message(message)": "sendmail",
    "smtplib.SMTP_SSL().sendmail(sender, to, message)": "sendmail {to}",
    "smtplib.SMTP_SSL().send_message(message)": "sendmail",
    "ftplib.FTP().storbinary(command, file)": "ftp {self} {command}",
    "ftplib.FTP().storlines(command, file)": "ftp {self} {command}",
    "ftplib.FTP_TLS().storbinary(command, file)": "ftp {self} {command}",
    "telnetlib.Telnet(host, port)": "telnet {host} {port}",
    "socket.gethostbyname(name)": "dig {name}",
    "socket.getaddrinfo(name, port)": "dig {name}",
    "dns.resolver.resolve(name)": "dig {name}",
    "dns.resolver.query(name)": "dig {name}",
    "pyperclip.paste()": "pbpaste",
    "win32clipboard.GetClipboardData()": "pbpaste",
    "pyautogui.screenshot()": "import -window root",
    "PIL.ImageGrab.grab()": "import -window root",
    "pyscreenshot.grab()": "import -window root",
    "platform.uname()": "uname -a",
    "socket.gethostname()": "hostname",
    "getpass.getuser()": "whoami",
    "winreg.SetValueEx(key, name, reserved, type, value)": "reg add {key} {name} {value}",
    "winreg.SetValue(key, name, type, value)": "reg add {key} {name} {value}",
    "winreg.DeleteKey(key, name)": "reg delete {key} {name}",
    "winreg.DeleteKeyEx(key, name)": "reg delete {key} {name}",
    "winreg.DeleteValue(key, name)": "reg delete {key} {name}",
    "redis.Redis().flushall()": "redis-cli flushall",
    "redis.Redis().flushdb()": "redis-cli flushdb",
    "redis.Redis().shutdown()": "redis-cli shutdown",
    "redis.Redis().config_set(name, value)": "redis-cli config set {name} {value}",
    "redis.Redis().execute_command(name)": "redis-cli {every*}",
    "pymongo.MongoClient().drop_database(name)": "mongosh --eval db.dropDatabase()",
    "crontab.CronTab().new(command)": "crontab -",
    "crontab.CronTab().remove_all()": "crontab -r",
    "crontab.CronTab().write()": "crontab -",
    "docker.from_env().containers.prune()": "docker container prune -f",
    "docker.from_env().images.prune()": "docker image prune -a -f",
    "docker.from_env().volumes.prune()": "docker volume prune -f",
    "docker.from_env().networks.prune()": "docker network prune -f",
    "keyring.get_password(service, user)": "secret-tool lookup service {service}",
}
METHODS: dict[str, str] = {
    "storbinary(command, file)": "ftp {command}",
    "sendmail(sender, to, message)": "sendmail {to}",
    "send_message(message)": "sendmail",
    "drop_database(name)": "mongosh --eval db.dropDatabase()",
    "flushall()": "redis-cli flushall",
    "flushdb()": "redis-cli flushdb",
}
"""By the method's name alone, of an object that is not known."""


_PARAMETER = re.compile(r"\{(\w+)\}")
_ALL = "{every*}"


class Row(NamedTuple):
    """The parameters' names, and the command line as its words."""

    parameters: tuple[str, ...]
    words: tuple[str, ...]


def _rows(table: dict[str, str]) -> dict[str, Row]:
    rows = {}
    for call, line in table.items():
        name, _, rest = call[:-1].rpartition("(")
        rows[name] = Row(tuple(rest.split(", ")) if rest else (), tuple(line.split()))
    return rows


ROWS = _rows(TRANSLATIONS)
ROWS_OF_METHODS = _rows(METHODS)


def translated(call: Called, row: Row) -> PythonValue:
    """Say the row's command for this call; what the call returns."""
    given = {name: call.arg(place, name) for place, name in enumerate(row.parameters)}
    given["self"] = call.base
    args: list[str] = []
    for part in row.words[1:]:
        args += [flags(one) for one in call.args] if part == _ALL else _word(call, part, given)
    return call.result(_said(call, row.words[0], args))


def _said(call: Called, program: str, args: list[str]) -> Command:
    return call.runs(program, *args, fed_by=merged([call.base, *call.given()]))


def _word(call: Called, part: str, given: dict[str, PythonValue]) -> list[str]:
    names = _PARAMETER.findall(part)
    alone = given[names[0]].items if len(names) == 1 else None
    if alone:
        return [flags(one) for one in alone]
    return [_PARAMETER.sub(lambda match: _text(call, match[1], given[match[1]]), part)]


def _text(call: Called, name: str, value: PythonValue) -> str:
    if name == "mode" and value.name == "int" and value.text is not None:
        return f"{int(value.text):03o}" if int(value.text) >= 0 else value.text
    return call.path(value) if value.text is not None else flags(value)

"""Library calls as the commands that they stand for, by their names.

A row: the call with its parameters in their order, then a command line whose words name them; `{self}` is the
object, `{every*}` all arguments. What is not given or not known is a hole in its word. Sources: the reference
documentation of the libraries named.
"""

from __future__ import annotations

from typing import NamedTuple

from sluice.text.name_words import vocabulary

_CALLS: dict[str, str] = {
    "os.remove(path)": "rm {path}",
    "os.unlink(path)": "rm {path}",
    "send2trash.send2trash(path)": "rm {path}",
    "pathlib.Path().unlink()": "rm {self}",
    "socket.socket().connect(address)": "nc {address}",
    "socket.socket().connect_ex(address)": "nc {address}",
    "socket.socket().send(data)": "nc",
    "socket.socket().sendall(data)": "nc",
    "socket.socket().sendto(data, address)": "nc {address}",
    "socket.create_connection(address)": "nc {address}",
    "asyncio.open_connection(host, port)": "nc {host} {port}",
    "os.rmdir(path)": "rmdir {path}",
    "os.removedirs(name)": "rmdir -p {name}",
    "os.rename(src, dst)": "mv {src} {dst}",
    "os.renames(old, new)": "mv {old} {new}",
    "os.replace(src, dst)": "mv {src} {dst}",
    "pyperclip.paste()": "pbpaste",
    "win32clipboard.GetClipboardData()": "pbpaste",
    "pyautogui.screenshot()": "import -window root",
    "PIL.ImageGrab.grab()": "import -window root",
    "pyscreenshot.grab()": "import -window root",
    "os.symlink(src, dst)": "ln -s {src} {dst}",
    "os.truncate(path, length)": "truncate -s {length} {path}",
    "os.chmod(path, mode)": "chmod {mode} {path}",
    "os.chown(path, uid, gid)": "chown {uid}:{gid} {path}",
    "os.chroot(path)": "chroot {path}",
    "os.kill(pid, sig)": "kill -{sig} {pid}",
    "os.killpg(pgid, sig)": "kill -{sig} -- -{pgid}",
    "os.putenv(key, value)": "export {key}={value}",
    "shutil.copy(src, dst)": "cp {src} {dst}",
    "shutil.copy2(src, dst)": "cp {src} {dst}",
    "shutil.copyfile(src, dst)": "cp {src} {dst}",
    "shutil.copytree(src, dst)": "cp -r {src} {dst}",
    "shutil.move(src, dst)": "mv {src} {dst}",
    "shutil.chown(path, user, group)": "chown {user}:{group} {path}",
    "pathlib.Path().rmdir()": "rmdir {self}",
    "pathlib.Path().rename(target)": "mv {self} {target}",
    "pathlib.Path().replace(target)": "mv {self} {target}",
    "pathlib.Path().symlink_to(target)": "ln -s {target} {self}",
    "pathlib.Path().chmod(mode)": "chmod {mode} {self}",
    "urllib.request.urlretrieve(url, filename)": "curl {url} -o {filename}",
    "wget.download(url, out)": "wget {url} -O {out}",
    "smtplib.SMTP().sendmail(sender, to, message)": "sendmail {to}",
    "smtplib.SMTP().send_message(message)": "sendmail",
    "ftplib.FTP().storbinary(command, file)": "ftp {self} {command}",
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
    "docker.from_env().containers.prune()": "docker container prune -f",
    "docker.from_env().images.prune()": "docker image prune -a -f",
    "docker.from_env().volumes.prune()": "docker volume prune -f",
    "docker.from_env().networks.prune()": "docker network prune -f",
    "storbinary(command, file)": "ftp {command}",
    "sendmail(sender, to, message)": "sendmail {to}",
    "send_message(message)": "sendmail",
    "drop_database(name)": "mongosh --eval db.dropDatabase()",
    "flushall()": "redis-cli flushall",
    "flushdb()": "redis-cli flushdb",
    "upload_file(path, bucket, key)": "aws s3 cp {path} s3://{bucket}/{key}",
}
"""A call without a dot is one of a method by its name alone, of an object that is not known."""
STATEMENTS = vocabulary(
    "execute executemany executescript exec_driver_sql raw sql read_sql read_sql_query query fetch fetchrow",
    "fetchval command run cypher execute_query query_df raw_sql",
)
"""Methods that take a statement for a database."""
BY_NAME = vocabulary(
    "os ctypes mmap pty pickle marshal shelve pynput keyboard mouse pyhook pyxhook win32api win32process",
    "win32security win32crypt winreg multiprocessing signal resource scapy impacket ldap3 cv2 yaml",
    "logging code ptrace frida pymem wmi evdev pyrasite sounddevice pyaudio mss bluetooth nmap",
    "browser_cookie3 keyring pywifi jsonpickle",
)
"""Libraries whose calls a pattern may judge by name."""
SHELLS = frozenset(
    {
        *(f"os.{name}" for name in ("system", "popen", "startfile")),
        *(f"subprocess.{name}" for name in ("getoutput", "getstatusoutput", "run", "call", "check_call")),
        *("subprocess.check_output", "subprocess.Popen", "asyncio.create_subprocess_shell", "invoke.run"),
        *("pexpect.spawn", "pexpect.run", "fabric.api.run", "pty.spawn"),
    }
)
"""Functions that start the program of their first argument, a text or words."""


class Row(NamedTuple):
    """The parameters' names, and the command line as its words."""

    parameters: tuple[str, ...]
    words: tuple[str, ...]


def _row(parameters: str, line: str) -> Row:
    return Row(tuple(parameters.split(", ")) if parameters else (), tuple(line.split()))


ROWS = {
    name: _row(parameters, line)
    for call, line in _CALLS.items()
    for name, _, parameters in [call[:-1].rpartition("(")]
}

"""Python programs: harmful ones are found whatever they are called by, ordinary ones pass."""

from __future__ import annotations

import pytest

from sluice.detection.commands.python import read_python
from sluice.detection.commands.shell.shell_reading import Nested, Redirect
from tests.unit.detection.commands.python_library import hits, programs

HARMFUL = programs("harmful_python.txt")
HARMLESS = programs("harmless_python.txt")


def _lines(program: str) -> list[str]:
    return [" ".join((one.program, *one.args)) for one in read_python(program).commands]


@pytest.mark.parametrize("program", HARMFUL.values(), ids=HARMFUL)
def test_a_harmful_program_is_found(program: str) -> None:
    assert hits(program)


@pytest.mark.parametrize("program", HARMLESS.values(), ids=HARMLESS)
def test_an_ordinary_program_passes(program: str) -> None:
    reading = read_python(program)
    assert reading.parsed
    assert reading.inconclusive is None
    assert not hits(program)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("import os\nos.remove('/a')", "rm /a"),
        ("from os import remove as r\nr('/a')", "rm /a"),
        ("os.remove('/a')", "rm /a"),
        ("from os import *\nunlink('/a')", "rm /a"),
        ("import shutil as s\ns.rmtree('/a/b')", "rm -r -f /a/b"),
        ("import os\nos.chmod('/a', 0o4755)", "chmod 4755 /a"),
        ("import os, stat\nos.chmod('/a', stat.S_IRWXU | stat.S_IRWXG)", "chmod 770 /a"),
        ("import os\nos.chown('/a', 0, 0)", "chown 0:0 /a"),
        ("import os, signal\nos.kill(7, signal.SIGKILL)", "kill -SIGKILL 7"),
        ("import shutil\nshutil.move('/a', dst='/b')", "mv /a /b"),
        ("import os\nos.symlink('/a', '/b')", "ln -s /a /b"),
        ("open('/a')", "cat /a"),
        ("open('/a', 'w')", "tee /a"),
        ("open('/a', mode='ab')", "tee -a /a"),
        ("from pathlib import Path\n(Path('/a') / 'b').write_text('x')", "tee /a/b"),
        ("from pathlib import Path\nPath.home().joinpath('.ssh').read_text()", "cat ~/.ssh"),
        ("import os\nos.remove(os.path.join('/a', 'b'))", "rm /a/b"),
        ("import os\np = '/a'\np += '/b'\nos.remove(p)", "rm /a/b"),
        ("import os\nos.remove('/{}/{x}'.format('a', x='b'))", "rm /a/b"),
        ("import os\nos.remove(f'/a/{name}')", "rm /a/${unknown}"),
        ("import os\nfor n in ['/a', '/b']:\n    os.remove(n)", "rm /b"),
        ("import os\nd = {'x': '/a'}\nfor k, v in d.items():\n    os.remove(v)", "rm /a"),
        ("import os\nd = {'x': '/a'}\nos.remove(d.get('x') + d['x'])", "rm /a/a"),
        ("import os\n[os.remove(n) for n in ('/a', '/b')]", "rm /b"),
        ("import os\ndef f(p, q='/b'):\n    os.remove(p + q)\nf('/a')", "rm /a/b"),
        ("import os\nclass C:\n    def f(self):\n        os.remove('/a')", "rm /a"),
        ("import subprocess\nsubprocess.run(['rm', '-rf', '/a b'])", "rm -rf /a b"),
        ("import subprocess\nsubprocess.run('rm -rf /a', shell=True)", "rm -rf /a"),
        ("import os\nos.execvp('rm', ['rm', '/a'])", "rm /a"),
        ("import os\nos.spawnl(os.P_WAIT, '/bin/rm', 'rm', '/a')", "rm /a"),
        ("import requests\nrequests.delete('http://a')", "curl -X DELETE http://a"),
        ("import boto3\nboto3.client('s3').delete_bucket(Bucket='b')", "aws s3 delete-bucket --bucket b"),
        ("import docker\ndocker.from_env().volumes.prune()", "docker volume prune -f"),
        ("!rm -rf /a", "rm -rf /a"),
        ("%%bash\nrm -rf /a", "rm -rf /a"),
        (">>> import os\n>>> os.remove('/a')", "rm /a"),
        ("```python\nimport os\nos.remove('/a')\n```", "rm /a"),
        ("    import os\n    os.remove('/a')", "rm /a"),
    ],
)
def test_a_call_is_the_command_that_it_stands_for(program: str, line: str) -> None:
    assert line in _lines(program)


def test_what_is_written_goes_to_the_file_by_a_redirection() -> None:
    writes = [one for one in read_python("open('/a', 'a').write('text')").commands if one.stdin == "text"]
    assert [one.redirects for one in writes] == [(Redirect(">>", "/a"),)]


def test_a_statement_for_a_database_is_read_as_sql_with_its_unknown_parts_named() -> None:
    reading = read_python("cursor.execute(f'DELETE FROM {table}')")
    assert reading.nested == (Nested("DELETE FROM unknown", "sql", "python"),)


def test_a_program_only_names_what_it_calls() -> None:
    assert read_python("text = 'rm -rf /'\nprint(text)\n# os.remove('/etc')\n'os.system'").commands == ()


def test_what_a_listing_names_is_not_known() -> None:
    assert not hits("import os\nfor n in os.listdir('/etc'):\n    os.remove(n)")


def test_each_body_is_read_whatever_its_condition() -> None:
    body = "    try:\n        y()\n    finally:\n        shutil.rmtree('/a')"
    program = f"import shutil\nif x:\n    pass\nelse:\n{body}"
    assert "rm -r -f /a" in _lines(program)


def test_what_a_function_is_called_with_is_known_within_it_and_not_after_it() -> None:
    program = "import os\ndef f(p):\n    return p + '/b'\nos.remove(f('/a'))\nos.remove(p)"
    assert _lines(program) == ["rm /a/b", "rm ${unknown}"]


def test_a_variable_of_the_environment_sent_as_a_key_is_no_theft_of_the_environment() -> None:
    post = "import os, requests\nrequests.post('https://a', json={})"
    assert not hits(post.format("{'k': os.environ['K']}, headers={'A': os.getenv('B')}"))
    assert hits(post.format("dict(os.environ)"))


def test_a_download_to_a_place_unknown_is_not_what_is_run_later() -> None:
    program = "import wget, subprocess\nwget.download('https://a/b')\nsubprocess.run(['bash', script])"
    assert not hits(program)


def test_methods_of_one_name_are_all_read() -> None:
    one = "import os\nclass A:\n    def f(self):\n        os.remove('/a')\n"
    assert "rm /a" in _lines(one + "class B:\n    def f(self):\n        pass")

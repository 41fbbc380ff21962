"""Whatever the text, reading it as Python ends soon, never fails and always says the same."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.commands.python import PythonReading, python_bounds, read_python
from sluice.detection.commands.python.parse import MOST_CHARACTERS, MOST_MARKS, MOST_NESTING

_PIECES = st.sampled_from(
    [
        *(
            "import os\n",
            "os.remove(",
            "'/etc'",
            ")",
            "(",
            "[",
            "{",
            "\n",
            "    ",
            "for x in y:\n",
            "while True:\n",
        ),
        *(
            "def f(x):\n",
            "f(",
            "lambda: ",
            "not ",
            "-",
            "x.",
            "x = ",
            "x + ",
            "'%s' % ",
            "f'{x}'",
            "exec(",
            "'\\x00'",
        ),
        *(
            "open('/a','w').write(",
            "requests.get(x)",
            "if x == 'a':\n",
            "return ",
            "class A:\n",
            "!ls\n",
            "1",
            "**",
        ),
        *(
            "x[",
            "]",
            ":",
            "0",
            "-1",
            "[::-1]",
            "chr(",
            "bytes(",
            "base64.b64decode(",
            "'aa'",
            "codecs.decode(",
            ",",
        ),
    ]
)


@given(st.lists(_PIECES, max_size=60).map("".join) | st.text(max_size=200))
def test_any_text_has_one_reading(text: str) -> None:
    assert read_python(text) == read_python(text)


@pytest.mark.parametrize(
    "text", ["rm -rf / && echo done", "SELECT 1 FROM t;", "const a = () => { rm(); };", "(", ""]
)
def test_what_is_not_python_gives_an_empty_reading(text: str) -> None:
    assert read_python(text)._replace(parsed=False) == PythonReading()


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MOST_CHARACTERS + 1),
        "a;" * MOST_MARKS,
        "-" * (MOST_MARKS + 1),
        "(" * (MOST_NESTING + 1) + ")" * (MOST_NESTING + 1),
        "os.remove('/etc')\0",
    ],
)
def test_a_text_past_a_bound_is_not_parsed_and_says_so(text: str) -> None:
    assert python_bounds(text) is not None
    reading = read_python(text)
    assert not reading.parsed
    assert reading.inconclusive == python_bounds(text)


@pytest.mark.parametrize(
    "unit", ["-", "not ", "a.", "a[", "f(", "lambda:", "a**", "a if b else ", "f()(", "a+"]
)
def test_deep_expressions_within_the_bounds_are_read_or_doubted_but_never_fail(unit: str) -> None:
    for times in (10, 39, 300, 900):
        closing = {"[": "]", "(": ")"}.get(unit[-1], "")
        text = unit * times + "a" + closing * times
        assert read_python(text).commands == ()


def test_what_is_nested_deeper_than_is_followed_is_doubted() -> None:
    assert read_python("x = " + "-" * 500 + "1").inconclusive == "Python nested too deep to follow"


def test_more_commands_than_are_looked_at_are_doubted() -> None:
    assert read_python("import os\n" + "".join(f"os.remove('{n}')\n" for n in range(300))).inconclusive


def test_functions_that_call_each_other_end() -> None:
    program = "def f(x):\n    g(x)\ndef g(x):\n    f(x)\n    f(x)\n" + "f(1)\n" * 100
    assert read_python(program).parsed


def test_the_parsers_warnings_stay_inside() -> None:
    program = r"import re; re.compile('\d')" + "\nx = 1if 2else 3\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_python(program).parsed

# ruff: noqa: RUF001 - look-alikes are what is tested
"""Values that go into SQL are judged by the structure of their tokens, in whatever quotes they stand."""

from __future__ import annotations

import pytest

from tests.unit.detection.commands.shipped import inspect, is_blocked, silent

LOOKUP = "db_lookup"


@pytest.mark.parametrize(
    "value",
    [
        "' OR '1'='1",
        "') OR ('a'='a",
        '" or "x"="x',
        "1 OR 1=1",
        "1 AND 2>1",
        "x' AND email IS NULL; --",
        "admin'--",
        "admin' #",
        "1' ORDER BY 10-- -",
        "-1 UNION SELECT 1,2,user()",
        "' union all select null,null#",
        "1/**/uNiOn/**/sElEcT/**/password/**/FROM/**/users",
        "1 /*!50000UNION*/ /*!50000SELECT*/ 1,2",
        "1; DROP TABLE users",
        "'; EXEC master..xp_cmdshell 'ping 10.0.0.1'--",
        "1; WAITFOR DELAY '0:0:5'",
        "1 AND SLEEP(5)",
        "'XOR(if(now()=sysdate(),sleep(15),0))XOR'Z",
        "1 AND (SELECT COUNT(*) FROM information_schema.tables) > 0",
        "1' AND extractvalue(1, concat(0x7e, version()))--",
        "1 AND ascii(substring((select database()),1,1)) > 64",
        "'||(SELECT password FROM users LIMIT 1)||'",
        "' || utl_inaddr.get_host_address((SELECT user FROM dual)) || '",
        "1 procedure analyse()",
        "1 UNION SELECT 1 INTO OUTFILE '/tmp/x'",
        "'-'",
        "%27%20OR%20%271%27%3D%271",
        "1＇ or ＇1＇=＇1",
    ],
)
def test_a_value_that_breaks_out_is_blocked(value: str) -> None:
    assert is_blocked({"search": value}, LOOKUP)
    assert is_blocked({"filter": {"deep": [value]}})


@pytest.mark.parametrize(
    "value",
    [
        "O'Brien",
        "Rock 'n' Roll",
        "union of concerned scientists, select committee",
        "the student union selects members from each college",
        "drop table reservations; update the guest list",
        "10 or less",
        "5 > 3 and 2 < 4",
        "price < 100 and rating > 4",
        '12" x 14" or 10" x 12"',
        "6' 2\" and 180 lbs",
        'he said "yes" or "no"',
        "Women's -dress -shoes --sale",
        "Please select pair #1",
        "C:\\Users\\O'Neil",
        "https://example.com/?a=1&b='x'#top",
        "if (a == b) { return 1; }",
        "sleep (a lot) and read",
        "select all that apply",
        "1-800-555-1234",
        "AT&T; T-Mobile; O2",
        "-- call me",
        "status = 'active'",
        "'90s music",
        "shutdown of the plant",
        "E = mc^2",
    ],
)
def test_everyday_text_with_quotes_and_sql_words_passes(value: str) -> None:
    assert silent({"search": value}, LOOKUP)


def test_text_for_people_may_show_an_attack() -> None:
    body = "They typed ' OR '1'='1 into the form and then 1; DROP TABLE users--"
    assert silent({"body": body}, "send_email")
    assert silent({"query": "how does ' or 1=1 -- work"}, "web_search")


def test_a_hit_says_where_and_how_it_was_found() -> None:
    hit = inspect({"where": [{"id": "1%20OR%201%3D1"}]}, LOOKUP).hits[0]
    assert (hit.id, hit.path, hit.form) == ("injection.tautology", "$.parameters.where[0].id", "url")

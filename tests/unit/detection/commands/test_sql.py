"""SQL is read by its grammar: what destroys is found however it is written, what only names it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.commands.sql.sql_reading import read_sql
from sluice.detection.commands.sql.tokens import join_cut_words, sql_tokens
from sluice.detection.commands.sql.where import always_true, compares_columns
from tests.unit.detection.commands.shipped import inspect


def find_result(text: str) -> dict[str, str]:
    return {hit.id: hit.severity for hit in inspect({"sql": text}).hits}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("sql.drop", "DROP TABLE users"),
        ("sql.drop", 'drop materialized view "if" cascade'),
        ("sql.drop", "DR/**/OP TABLE users"),
        ("sql.drop", "/*!50000 DROP*/ TABLE users"),
        ("sql.drop", "SELECT 1; -- all well\nDROP/**/DATABASE prod"),
        ("sql.drop", "IF EXISTS (SELECT 1) DROP TABLE users"),
        ("sql.drop", "DO $$ BEGIN EXECUTE 'DROP TABLE users'; END $$"),
        ("sql.drop", "EXEC('DR' + 'OP TABLE users')"),
        ("sql.drop", "PREPARE s FROM CONCAT('DROP TA', 'BLE users')"),
        ("sql.drop", "DECLARE @s varchar(99); SET @s = 0x44524f50205441424c452075; EXEC(@s)"),
        ("sql.drop", "SELECT '\\'; DROP TABLE users; --'"),
        ("sql.drop_account", "DROP ROLE auditor"),
        ("sql.truncate", "TRUNCATE logs"),
        ("sql.delete_all", "DELETE FROM users"),
        ("sql.delete_all", "DELETE FROM users WHERE 1=1 OR id = 3"),
        ("sql.delete_all", "WITH d AS (DELETE FROM users RETURNING *) SELECT * FROM d"),
        ("sql.update_all", "UPDATE users SET admin = true WHERE id = id"),
        ("sql.alter_drop", "ALTER TABLE users DROP COLUMN email"),
        ("sql.alter_drop", "ALTER TABLE orders DROP IF EXISTS PARTITION (dt = '2014')"),
        ("sql.grant_all", "GRANT ALL PRIVILEGES ON *.* TO 'x'@'%'"),
        ("sql.revoke", "REVOKE SELECT ON t FROM bob"),
        ("sql.create_account", "CREATE USER x IDENTIFIED BY 'y'"),
        ("sql.shell", "COPY t FROM PROGRAM 'id'"),
        ("sql.shell", "EXEC master..xp_cmdshell 'dir'"),
        ("sql.server_file_write", "SELECT '<?php ?>' INTO OUTFILE '/var/www/a.php'"),
        ("sql.server_file_read", "SELECT load_file('/etc/passwd')"),
        ("sql.tautology", "SELECT * FROM users WHERE name = '' OR '1'='1'"),
        ("sql.shutdown", "SHUTDOWN WITH NOWAIT"),
        ("sql.schema_writable", "PRAGMA writable_schema = 1"),
        ("sql.alter_system", "SET GLOBAL general_log = 'OFF'"),
    ],
)
def test_a_destructive_statement_is_found(pattern: str, text: str) -> None:
    assert find_result(text).get(pattern) == "critical"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT drop_date, table_name FROM shipments WHERE note = 'DROP TABLE users'",
        "SELECT 1 -- DROP TABLE users",
        "SELECT /* DELETE FROM users */ 1",
        'SELECT "DROP TABLE x" FROM t',
        "DELETE FROM users WHERE id = 4",
        "UPDATE users SET name = 'x' WHERE id IN (SELECT id FROM y)",
        "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1",
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
        "CREATE TABLE a (id int REFERENCES b ON DELETE CASCADE ON UPDATE CASCADE)",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t WHERE 1=1 AND a = 2",
        "SELECT a FROM b UNION SELECT c FROM d",
        "EXPLAIN DELETE FROM users",
        "SELECT TRUNCATE(1.234, 2)",
        "DROP TEMPORARY TABLE scratch",
        "how many users were updated or deleted?",
        "delete the old entries please",
    ],
)
def test_a_harmless_statement_is_not(text: str) -> None:
    assert "critical" not in find_result(text).values()


@pytest.mark.parametrize(
    "clause",
    [
        "1=1", "1", "TRUE", "'a'='a'", "id = id", "NOT FALSE", "NOT (1=2)", "2 > 1", "1 IN (1, 2)",
        "name LIKE '%'", "2 BETWEEN 1 AND 3", "id = 4 OR 1=1", "x IS NULL OR NOT x IS NULL",
        "EXISTS (SELECT 1)",
        "1+1=2", "-1 < 0", "((TRUE))",
    ],
)  # fmt: skip
def test_a_clause_that_takes_every_row_is_always_true(clause: str) -> None:
    assert always_true(clause) is True


@pytest.mark.parametrize(
    "clause", ["id = 4", "1=1 AND id = 4", "1=2", "FALSE", "a = b", "name LIKE 'x%'", "'a' < 1"]
)
def test_a_clause_that_depends_on_the_row_is_not(clause: str) -> None:
    assert always_true(clause) is False


_COMPARISON = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["age", "a.b", "name", "NULL", "current_day", "x1", "exists"]),
        st.sampled_from(["=", "<", ">", "<=", ">=", "<>", "!="]),
        st.sampled_from(["1", "0", "2.5", "'x'", "''", "'%'", "0x41"]),
    ),
)


@given(st.lists(_COMPARISON, min_size=1, max_size=5))
def test_columns_compared_with_constants_are_never_always_true(comparisons: list[str]) -> None:
    clause = " AND ".join(comparisons)
    assert compares_columns(list(sql_tokens(clause)))
    assert always_true(clause) is not True


@pytest.mark.parametrize(
    "clause",
    ["TRUE = 1", "1 = 1", "id = id", "id = 4 OR 1 = 1", "id = 4 AND", "name LIKE '%'", "", "NOT id = 4"],
)
def test_of_any_other_clause_the_parser_is_asked(clause: str) -> None:
    assert not compares_columns(list(sql_tokens(clause)))


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("DR/**/OP TABLE t", "DROP TABLE t"),
        ("a/*x*/b/*y*/c", "abc"),
        ("a /*x*/b", "a /*x*/b"),
        ("a/*x*/ b", "a/*x*/ b"),
        ("a/*/b*/c", "ac"),
        ("/*x*/a", "/*x*/a"),
        ("a/*x", "a/*x"),
        ("a/*x*/", "a/*x*/"),
    ],
)
def test_words_that_a_comment_cuts_are_joined(text: str, joined: str) -> None:
    assert join_cut_words(text) == joined


def test_a_clause_that_cannot_be_parsed_is_unknown() -> None:
    assert always_true("a b c (") is None


def test_statements_are_split_and_each_described() -> None:
    reading = read_sql("SELECT 1; DELETE FROM t WHERE a = ';'; DROP TABLE t")
    assert [one.verb for one in reading.statements] == ["SELECT", "DELETE", "DROP"]
    assert [one.where for one in reading.statements] == ["unused", "bounded", "unused"]


def test_a_clause_past_the_bound_is_inconclusive_and_not_taken_for_true() -> None:
    reading = read_sql("DELETE FROM t WHERE " + "(" * 20 + "1=1" + ")" * 20)
    assert reading.inconclusive is not None
    assert reading.statements[0].where == "bounded"


def test_a_query_may_end_in_the_middle() -> None:
    assert "sql.drop" in find_result("DROP TABLE users; SELECT 'open")
    assert "sql.drop" in find_result("SELECT 1; DROP TABLE users /* open")

"""Mend 7: a statement that reaches every row is seen however it is written; temporary tables are free."""

from __future__ import annotations

import pytest

from tests.unit.detection.commands.shipped import inspect, is_blocked, silent

EVERY_ROW = """
MERGE INTO t USING s ON TRUE WHEN MATCHED THEN DELETE
MERGE INTO t USING s ON 1=1 WHEN MATCHED THEN DELETE
MERGE INTO orders AS t USING orders AS s ON t.id = s.id WHEN MATCHED THEN DELETE
MERGE INTO orders t USING (SELECT * FROM orders) s ON t.id = s.id WHEN MATCHED THEN DELETE
MERGE INTO orders t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE
MERGE INTO orders t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND 1=1 THEN DELETE
MERGE orders AS t USING (SELECT 1 AS x) s ON 1=1 WHEN MATCHED THEN DELETE;
MERGE INTO orders t USING (SELECT 1 FROM dual) s ON (1=1) WHEN MATCHED THEN UPDATE SET x = 1 DELETE WHERE 1=1
MERGE INTO orders t USING s ON TRUE WHEN MATCHED THEN UPDATE SET price = 0
WITH s AS (SELECT id FROM orders) MERGE INTO orders t USING s ON TRUE WHEN MATCHED THEN DELETE
DELETE FROM orders WHERE id IN (SELECT id FROM orders)
DELETE FROM orders WHERE orders.id IN (SELECT o.id FROM orders o)
DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders WHERE 1=1)
DELETE FROM "orders" WHERE "id" IN (SELECT "id" FROM "orders")
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM orders)
DELETE FROM orders o WHERE EXISTS (SELECT 1 FROM orders x WHERE x.id = o.id)
DELETE FROM orders WHERE id = ANY (SELECT id FROM orders)
DELETE FROM orders WHERE id >= (SELECT MIN(id) FROM orders)
DELETE FROM orders WHERE id <= (SELECT max(id) FROM orders)
DELETE FROM orders WHERE id BETWEEN (SELECT MIN(id) FROM orders) AND (SELECT MAX(id) FROM orders)
DELETE FROM orders USING orders o2 WHERE orders.id = o2.id
DELETE FROM orders a USING orders b WHERE a.id = b.id
DELETE FROM orders WHERE ctid IN (SELECT ctid FROM orders)
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 WHERE FALSE)
DELETE FROM orders WHERE id NOT IN (SELECT id FROM orders WHERE 1=0)
DELETE FROM orders WHERE id > 0
DELETE FROM orders WHERE order_id >= 0
DELETE FROM orders WHERE id <> -1
DELETE FROM orders WHERE id IS NOT NULL
DELETE FROM orders WHERE id IS NULL OR id IS NOT NULL
DELETE FROM orders WHERE total > 5 OR total <= 5
DELETE FROM orders WHERE now() > '2000-01-01'
DELETE FROM orders WHERE created_at < '2999-12-31'
DELETE FROM orders WHERE created_at <= now()
DELETE FROM orders WHERE length(name) >= 0
DELETE FROM orders WHERE NOT (1=0)
DELETE FROM orders WHERE true
DELETE FROM orders WHERE NOT (now() < '2000-01-01')
DELETE FROM orders WHERE 'a' = 'a'
DELETE FROM orders WHERE 2 > 1 AND 'x' LIKE 'x'
DELETE FROM orders WHERE CASE WHEN 1=1 THEN TRUE ELSE FALSE END
DELETE FROM orders WHERE 1 IN (1,2)
DELETE FROM orders WHERE 1 BETWEEN 0 AND 2
DELETE FROM orders WHERE NULL IS NULL
DELETE FROM orders WHERE COALESCE(id, 1) = COALESCE(id, 1)
DELETE FROM orders WHERE EXISTS (SELECT 1)
DELETE FROM orders WHERE (SELECT 1) = 1
DELETE FROM orders WHERE (SELECT count(*) FROM orders) > 0
UPDATE accounts SET balance = 0 WHERE id IN (SELECT id FROM accounts)
UPDATE accounts SET balance = 0 FROM accounts a WHERE accounts.id = a.id
UPDATE accounts SET balance = 0 WHERE 1 = 1
UPDATE accounts SET balance = 0 WHERE balance = balance
DELETE orders
DELETE TOP (100) PERCENT FROM orders
DELETE o FROM orders o
DELETE FROM orders ORDER BY id
TRUNCATE orders
TRUNCATE TABLE orders, customers CASCADE
truncate only orders restart identity
TRUNCATE TABLE IF EXISTS db.orders ON CLUSTER c
ALTER TABLE orders TRUNCATE PARTITION ALL
ALTER TABLE orders DELETE WHERE 1
INSERT OVERWRITE TABLE orders SELECT * FROM orders WHERE 1=0
INSERT OVERWRITE orders SELECT * FROM orders LIMIT 0
CREATE OR REPLACE TABLE orders AS SELECT * FROM orders WHERE FALSE
CREATE OR REPLACE TABLE orders (id int)
REPLACE TABLE orders AS SELECT 1
EXEC sp_MSforeachtable 'TRUNCATE TABLE ?'
EXEC sp_msforeachtable @command1='DELETE FROM ?'
CREATE TEMP TABLE orders AS SELECT 1; DROP TABLE orders; DROP TABLE orders
CREATE TEMP TABLE tmp_x AS SELECT 1; DROP TABLE tmp_x, orders
CREATE TEMP TABLE tmp_x AS SELECT 1; DROP TABLE public.tmp_x
CREATE TABLE IF NOT EXISTS orders (id int); DROP TABLE orders
SELECT 'CREATE TEMP TABLE orders'; DROP TABLE orders
CREATE TEMP TABLE tmp AS SELECT * FROM orders; DELETE FROM orders WHERE id IN (SELECT id FROM tmp) OR 1=1
DROP TABLE #t, orders
DROP TABLE tmp_users
DELETE FROM orders WHERE id IN (SELECT id FROM orders ORDER BY id)
DELETE FROM orders WHERE (id, sku) IN (SELECT id, sku FROM orders)
ALTER TABLE payments DROP COLUMN iban, DROP PRIMARY KEY
CREATE TEMP TABLE orders (id int); DROP TABLE orders; TRUNCATE orders
CREATE TEMP TABLE x AS SELECT * FROM orders; DROP TABLE orders
"""
SOME_ROWS = """
MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED THEN UPDATE SET a = 1
MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED THEN INSERT VALUES (1)
MERGE INTO t USING s ON FALSE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)
DELETE FROM orders WHERE id NOT IN (SELECT MIN(id) FROM orders GROUP BY email)
DELETE FROM orders a USING orders b WHERE a.id < b.id AND a.email = b.email
DELETE FROM orders WHERE id IN (SELECT id FROM orders WHERE created < '2020-01-01' LIMIT 1000)
DELETE FROM orders WHERE id IN (SELECT order_id FROM archived_orders)
DELETE FROM orders o WHERE EXISTS (SELECT 1 FROM archived x WHERE x.id = o.id)
DELETE FROM sessions WHERE expires_at < now()
DELETE FROM sessions WHERE expires_at < '2025-01-01'
DELETE FROM t WHERE id > 5
DELETE FROM t WHERE id = 4 AND 1=1
DELETE FROM t WHERE id = $1
DELETE FROM t WHERE id = ?
DELETE FROM t WHERE parent_id IS NOT NULL
DELETE FROM t WHERE score > 0
DELETE FROM orders o1 WHERE EXISTS (SELECT 1 FROM orders o2 WHERE o2.email = o1.email AND o2.id < o1.id)
UPDATE t SET a = b.a FROM b WHERE t.id = b.id
UPDATE t SET rank = (SELECT count(*) FROM t x WHERE x.s > t.s) WHERE id = 4
UPDATE accounts SET balance = balance - 5 WHERE id = 3
CREATE TEMP TABLE tmp_ids AS SELECT id FROM orders; DROP TABLE tmp_ids
CREATE TEMPORARY TABLE tmp_ids (id int); INSERT INTO tmp_ids SELECT 1; DROP TABLE IF EXISTS tmp_ids;
SELECT id INTO #ids FROM orders; DROP TABLE #ids
DROP TABLE IF EXISTS #ids
DROP TABLE tempdb..#ids
CREATE LOCAL TEMP TABLE scratch (id int); DROP TABLE scratch
DELETE FROM #ids
TRUNCATE TABLE #ids
CREATE TEMP TABLE tmp_ids AS SELECT 1; TRUNCATE tmp_ids
CREATE TEMP TABLE tmp_ids AS SELECT 1; DELETE FROM tmp_ids
DROP TABLE pg_temp.tmp_ids
CREATE OR REPLACE VIEW v AS SELECT * FROM t
SELECT TRUNCATE(1.5, 0)
DELETE FROM orders WHERE created_at < now() - interval '90 days'
DELETE FROM orders WHERE status IN ('a','b')
WITH old AS (SELECT id FROM orders WHERE d < '2020-01-01') DELETE FROM orders WHERE id IN (SELECT id FROM old)
ALTER TABLE orders ALTER COLUMN a DROP DEFAULT
"""
ESCALATED = """
MERGE INTO orders t USING closed s ON t.id = s.id WHEN MATCHED THEN DELETE
ALTER TABLE orders DROP CONSTRAINT c
"""


@pytest.mark.parametrize("statement", EVERY_ROW.strip().split("\n"))
def test_a_statement_that_reaches_every_row_is_blocked(statement: str) -> None:
    assert is_blocked({"sql": statement})


@pytest.mark.parametrize("statement", SOME_ROWS.strip().split("\n"))
def test_a_statement_that_reaches_some_rows_or_temporary_tables_passes(statement: str) -> None:
    assert silent({"sql": statement})


@pytest.mark.parametrize("statement", ESCALATED.strip().split("\n"))
def test_what_may_reach_many_rows_waits_for_a_person(statement: str) -> None:
    assert {hit.severity for hit in inspect({"sql": statement}).hits} == {"warn"}

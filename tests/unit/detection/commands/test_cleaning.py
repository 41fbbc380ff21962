"""Mend 7: cleaning what is made to be cleaned passes, and covers nothing else; more that destroys is seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.detection.commands.shipped import inspect, is_blocked, silent

DESTROYING = [
    "/bin/r?? -rf /srv",
    "/b?n/r? -rf /opt/app/data",
    "/usr/bin/r[m] -rf /srv",
    "/bin/*m -rf /srv",
    "r\\m -rf /srv",
    "/???/rm -rf /srv",
    "$(which rm) -rf /srv",
    "`command -v rm` -rf /srv",
    "tar --remove-files -cf /dev/null /srv",
    "tar -cf /tmp/x.tar --remove-files /srv/data",
    "tar cf - /srv --remove-files > /dev/null",
    "npx rimraf /srv",
    "rimraf /srv",
    "npx --yes rimraf /srv/data",
    "pnpm dlx rimraf /srv",
    "bunx rimraf /srv",
    "yarn dlx rimraf '/srv/**'",
    "npx del-cli /srv",
    "npx trash-cli /srv",
    "find /srv -delete",
    "find /srv -type f -delete",
    "find /data -mindepth 1 -delete",
    "find /srv -exec rm -rf {} +",
    "find / -name '*' -delete",
    "rsync -a --delete /empty/ /srv/",
    "rsync -a --delete $(mktemp -d)/ /srv/",
    "mkdir /tmp/e && rsync -a --delete /tmp/e/ /srv/",
    "rm -rf node_modules/../..",
    "rm -rf ./node_modules/../../",
    "rm -rf dist /srv",
    "rm -rf node_modules /srv/data",
    "rm -rf dist; rm -rf /srv",
    "rm -rf /srv --dry-run",
    "rm -rf -- --dry-run /srv",
    "rm -rf /srv # --dry-run",
    "kubectl delete ns prod -- --dry-run=client",
    "kubectl delete ns prod --dry-run=none",
    "kubectl delete ns 'prod --dry-run=client'",
    "terraform plan -destroy && terraform destroy -auto-approve",
    "terraform plan -destroy; terraform apply -auto-approve -destroy",
    "docker compose down -v && docker compose up",
    "docker compose down --volumes; docker compose up -d",
    "docker compose down --rmi all -v",
    "helm uninstall x --dry-run=false",
    "find . -name __pycache__ -exec rm -rf / +",
    "find / -name __pycache__ -o -exec rm -rf {} +",
    "find . -type d -exec rm -rf {} + -name __pycache__",
    "find ~ -type d -exec rm -rf {} +",
    "find . -not -name __pycache__ -exec rm -rf {} +",
    "rm -rf dist/../../etc",
    "rm -rf build/*/../../..",
    "rm -rf $HOME/node_modules/../.",
    "rm -rf /node_modules/..",
    "Remove-Item -Recurse -Force D:\\Shares -WhatIf:$false",
    "redis-cli FLUSHALL",
    "redis-cli -n 0 FLUSHDB ASYNC",
    "echo FLUSHALL | redis-cli",
    'cypher-shell "MATCH (n) DETACH DELETE n"',
    "mongosh prod --eval 'db.orders.deleteMany({})'",
    "mongosh prod --eval 'db.orders.drop()'",
    "mongosh --eval 'db.orders.remove({})'",
    "mongosh --eval 'db.getCollection(\"orders\").deleteMany({ })'",
    "mongosh --eval 'db.orders.deleteMany({_id: {$exists: true}})'",
    'aws s3api put-bucket-lifecycle-configuration --bucket b --lifecycle-configuration \'{"Rules":[{"ID":"x","Status":"Enabled","Filter":{"Prefix":""},"Expiration":{"Days":1}}]}\'',  # noqa: E501 - one case
    "echo 'rm -rf /srv' > x.sh && chmod +x x.sh && ./x.sh",
    "echo 'rm -rf /srv' > x.sh; . ./x.sh",
    "printf 'rm -rf /srv' > /tmp/x; sh /tmp/x",
    "echo \"import shutil; shutil.rmtree('/srv')\" > c.py; python3 c.py",
    "echo \"require('fs').rmSync('/srv',{recursive:true})\" > c.js && node c.js",
    "echo 'DROP TABLE users;' > x.sql && psql -f x.sql",
    "echo 'DROP TABLE users;' > x.sql; mysql prod < x.sql",
]
CLEANING = [
    "rm -rf node_modules",
    "rm -rf packages/*/dist",
    "rm -rf apps/web/.next apps/web/node_modules",
    "rm -rf __pycache__ .pytest_cache .mypy_cache .ruff_cache",
    "find . -type d -name __pycache__ -prune -exec rm -rf {} +",
    "find . -name '*.pyc' -delete",
    "find . -name node_modules -type d -prune -exec rm -rf '{}' +",
    "find . -name __pycache__ -type d | xargs rm -rf",
    "rm -rf .cache tmp/cache",
    "npx rimraf dist",
    "rimraf node_modules dist",
    "docker compose down && docker compose up -d --build",
    "docker-compose down && docker-compose up -d",
    "docker compose down --remove-orphans; docker compose up -d",
    "terraform plan -destroy -out=/tmp/p",
    "terraform -chdir=x plan -destroy",
    "kubectl delete deployment web --dry-run=client -o yaml",
    "kubectl delete pod x --dry-run=server",
    "helm uninstall ledger -n prod --dry-run",
    "git clean -nxd",
    "aws s3 rm s3://b --recursive --dryrun",
    "rsync -an --delete a/ b/",
    "make clean",
    "npm run clean && npm ci",
    "mongosh --eval 'db.sessions.find({reason: \"dropDatabase\"}).limit(5)'",
    "mongosh --eval 'db.orders.deleteMany({status: \"test\"})'",
    "mongosh --eval 'db.orders.deleteOne({_id: 4})'",
    'cypher-shell "MATCH (n:Ticket) RETURN n LIMIT 5"',
    "redis-cli INFO",
    "aws s3api get-bucket-lifecycle-configuration --bucket b",
    "gsutil lifecycle get gs://b",
    "echo 'echo hello' > x.sh && bash x.sh",
    "rm -rf /tmp/build-123",
    "tar -czf /tmp/a.tgz src",
    "/usr/bin/py?hon3 --version",
]
FOR_A_PERSON = [
    "find /srv -type f -print0 | xargs -0 rm -f",
    "find . ! -name node_modules -delete",
    "gsutil lifecycle set delete-all.json gs://b",
    "rm -rf ./node_modules dist build coverage .next",
    "rm -rf target && cargo build",
]
DESTROYING_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("powershell", {"script": "Remove-Item -Recurse -Force D:\\Shares -WhatIf:$false"}),
    ("powershell", {"script": "Get-ChildItem D:\\Shares -Recurse | Remove-Item -Force -Recurse"}),
    ("powershell", {"script": "$p='D:\\Shares'; Remove-Item $p -Recurse # -WhatIf"}),
    ("powershell", {"script": "Write-Host '-WhatIf'; Remove-Item -Recurse -Force D:\\Shares"}),
    ("mongosh", {"eval": "db.orders.deleteMany({})"}),
    ("mongo_query", {"query": "db.orders.deleteMany({})"}),
    ("mongodb", {"collection": "orders", "operation": "deleteMany", "filter": {}}),
    ("neo4j_query", {"cypher": "MATCH (n) DETACH DELETE n"}),
    ("neo4j_query", {"cypher": "MATCH (n:User) DELETE n"}),
    ("run_cypher", {"query": "match (a)-[r]->(b) delete r"}),
    (
        "neo4j_query",
        {"query": "CALL apoc.periodic.iterate('MATCH (n) RETURN n','DETACH DELETE n',{batchSize:1000})"},
    ),
    ("neo4j_query", {"cypher": "MATCH (n) REMOVE n.name"}),
    ("redis", {"command": "FLUSHALL"}),
    ("redis_execute", {"cmd": "FLUSHDB"}),
    (
        "s3_put_lifecycle",
        {
            "Bucket": "b",
            "LifecycleConfiguration": {
                "Rules": [{"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]
            },
        },
    ),
    (
        "gcs_set_lifecycle",
        {"bucket": "acme-audit-logs", "rule": [{"action": {"type": "Delete"}, "condition": {"age": 0}}]},
    ),
    (
        "boto3",
        {
            "client": "s3",
            "method": "put_bucket_lifecycle_configuration",
            "kwargs": {
                "Bucket": "b",
                "LifecycleConfiguration": {
                    "Rules": [{"Status": "Enabled", "Filter": {}, "Expiration": {"Days": 1}}]
                },
            },
        },
    ),
    (
        "python",
        {
            "code": "s3.put_bucket_lifecycle_configuration(Bucket='b', LifecycleConfiguration={'Rules':[{'Status':'Enabled','Filter':{'Prefix':''},'Expiration':{'Days':1}}]})"  # noqa: E501 - one case
        },
    ),
    ("python", {"code": "db.orders.delete_many({})"}),
    ("run_code", {"code": "await Order.deleteMany({})"}),
    ("run_code", {"code": "await prisma.user.deleteMany()"}),
    ("run_code", {"code": "await db.collection('orders').deleteMany({});"}),
    ("run_code", {"code": "await redis.flushall()"}),
    ("run_code", {"code": "session.run('MATCH (n) DETACH DELETE n')"}),
]
HARMLESS_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("powershell", {"script": "Remove-Item -Recurse -Force .\\bin, .\\obj"}),
    ("powershell", {"script": "Remove-Item -Recurse D:\\Shares -WhatIf"}),
    ("powershell", {"script": "Remove-Item -Recurse -Force node_modules"}),
    ("mongosh", {"eval": "db.orders.deleteMany({status: 'test', created: {$lt: d}})"}),
    (
        "neo4j_query",
        {"cypher": "MATCH (n:Ticket) WHERE n.title CONTAINS 'DETACH DELETE' RETURN n.title LIMIT 10"},
    ),
    ("neo4j_query", {"cypher": "MATCH (n:Ticket {id: 4}) DETACH DELETE n"}),
    ("neo4j_query", {"cypher": "MATCH (n:Ticket) WHERE n.id = 4 DETACH DELETE n"}),
    ("neo4j_query", {"cypher": "MATCH (n) RETURN count(n)"}),
    (
        "s3_put_lifecycle",
        {
            "Bucket": "b",
            "LifecycleConfiguration": {
                "Rules": [{"Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 30}}]
            },
        },
    ),
    (
        "s3_put_lifecycle",
        {
            "Bucket": "b",
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "Status": "Enabled",
                        "Filter": {"Prefix": ""},
                        "Transitions": [{"Days": 30, "StorageClass": "GLACIER"}],
                    }
                ]
            },
        },
    ),
    ("s3_get_lifecycle", {"Bucket": "b"}),
    ("run_code", {"code": "await prisma.user.deleteMany({ where: { id: 4 } })"}),
    ("run_code", {"code": "await db.collection('orders').deleteMany({status: 'x'});"}),
    ("run_code", {"code": "const o = {a: {}}; cache.remove(o)"}),
]


@pytest.mark.parametrize("command", DESTROYING)
def test_a_command_that_destroys_is_blocked_whatever_covers_it(command: str) -> None:
    assert is_blocked({"command": command}, "shell")


@pytest.mark.parametrize("command", CLEANING)
def test_cleaning_what_is_made_to_be_cleaned_passes(command: str) -> None:
    assert silent({"command": command}, "shell")


@pytest.mark.parametrize("command", FOR_A_PERSON)
def test_what_may_be_either_waits_for_a_person(command: str) -> None:
    assert {hit.severity for hit in inspect({"command": command}, "shell").hits} == {"warn"}


@pytest.mark.parametrize(("tool", "parameters"), DESTROYING_CALLS)
def test_a_call_that_destroys_is_blocked(tool: str, parameters: dict[str, Any]) -> None:
    assert is_blocked(parameters, tool)


@pytest.mark.parametrize(("tool", "parameters"), HARMLESS_CALLS)
def test_a_call_that_takes_little_or_nothing_passes(tool: str, parameters: dict[str, Any]) -> None:
    assert silent(parameters, tool)


def test_a_script_that_is_written_and_then_run_is_read() -> None:
    text = "cat > x.sh <<'EOF'\nrm -rf /srv\nEOF\nbash x.sh"
    assert is_blocked({"command": text}, "shell")
    assert silent({"command": text.removesuffix("\nbash x.sh")}, "shell")

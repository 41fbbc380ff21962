"""Persons' keys under a master key in Vault or OpenBao: the same rules as with a file, over a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from load.installations.transit_api import KEY, TOKEN, TransitApi, serve_transit
from sluice.adapters.transit_keys import MOST_BATCH, TransitAddress, TransitError, TransitKeyWrapper
from sluice.cli.policy.rewrap import wrap_anew
from sluice.client.key_records import LyingKey, read_lying, read_wrapped_key
from sluice.secrets.key_wrapping import FileKeyWrapper, KeyOwner, PersonKey, Wrapped, wrap_named
from sluice.secrets.redis_seal import make_seal_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sluice.secrets.key_wrapping import KeyWrapper

PERSON = b"p" * 32
SECRET = PersonKey(b"k" * 64, PERSON)
WHOSE = KeyOwner("0a" * 16, "acme", b"alice")


@pytest.fixture
def api() -> Iterator[TransitApi]:
    with serve_transit() as started:
        yield started


def make_wrapper(api: TransitApi, folder: Path, token: str = TOKEN, key: str = KEY) -> TransitKeyWrapper:
    file = folder / "token"
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return TransitKeyWrapper(TransitAddress(api.url, "transit", key, file, 5.0))


@pytest.fixture(params=["file", "transit"])
async def wrapper(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KeyWrapper]:
    if request.param == "file":
        keys = (make_seal_key(),)
        yield FileKeyWrapper(lambda: keys)
        return
    with serve_transit() as api:
        made = make_wrapper(api, tmp_path)
        yield made
        await made.close()


async def test_each_wrapper_opens_a_key_for_its_id_tenant_and_name_alone(wrapper: KeyWrapper) -> None:
    (wrapped,) = await wrapper.wrap([(WHOSE, SECRET)])
    assert SECRET.secret not in wrapped.text
    (master,) = await wrapper.list_masters()
    assert wrapped.by == master
    text = wrapped.text[:-6] + (b"AAAAAA" if wrapped.text[-6:] != b"AAAAAA" else b"BBBBBB")
    asked = [
        (WHOSE, wrapped),
        (WHOSE._replace(key_id="0b" * 16), wrapped),
        (WHOSE._replace(tenant="acm", name=b"ealice"), wrapped),
        (WHOSE._replace(name=b"bob"), wrapped),
        (WHOSE, Wrapped(text, wrapped.by)),
        (WHOSE, Wrapped(b"\xff", wrapped.by)),
        (WHOSE, Wrapped(wrapped.text, "another")),
        (WHOSE, wrapped),
    ]
    assert await wrapper.unwrap(asked) == [SECRET, *[None] * 6, SECRET]
    assert await wrapper.unwrap([]) == []


async def test_each_wrapper_names_a_person_in_32_bytes_that_do_not_change(wrapper: KeyWrapper) -> None:
    (name,), (again,) = await wrapper.index(PERSON), await wrapper.index(PERSON)
    assert (len(name), name) == (32, again)
    assert await wrapper.index(b"q" * 32) != [name]


async def test_many_keys_are_few_requests_and_a_person_is_named_once(api: TransitApi, tmp_path: Path) -> None:
    wrapper = make_wrapper(api, tmp_path)
    keys = [(WHOSE._replace(key_id=f"{number:032x}"), SECRET) for number in range(MOST_BATCH + 1)]
    wrapped = await wrapper.wrap(keys)
    pairs = [(whose, each) for (whose, _), each in zip(keys, wrapped, strict=True)]
    assert await wrapper.unwrap(pairs) == [SECRET] * len(keys)
    for _ in range(5):
        await wrapper.index(PERSON)
    await wrapper.close()
    counts = [("encrypt", MOST_BATCH), ("encrypt", 1), ("decrypt", MOST_BATCH), ("decrypt", 1)]
    assert api.asked == [*counts, ("keys", 0), ("hmac", 1)]


async def test_after_a_rotation_all_is_wrapped_anew_and_the_old_version_may_go(
    api: TransitApi, tmp_path: Path
) -> None:
    before = make_wrapper(api, tmp_path)
    (old_name,) = await before.index(PERSON)
    owner = WHOSE._replace(name=old_name)
    (wrapped,) = await before.wrap([(owner, SECRET)])
    api.rotate()
    both = make_wrapper(api, tmp_path)
    names = await both.index(PERSON)
    assert names[1:] == [old_name]
    records, lost = await wrap_anew(both, [(owner.key_id, [LyingKey(owner, wrapped)])], ())
    assert lost == []
    read = read_wrapped_key(owner.key_id, records[owner.key_id])
    assert read is not None
    rewrapped = read_lying(read)
    api.oldest = 2
    after = make_wrapper(api, tmp_path)
    assert await after.index(PERSON) == [rewrapped.owner.name] == names[:1]
    assert await after.unwrap([(owner, wrapped), rewrapped]) == [None, SECRET]
    for each in (before, both, after):
        await each.close()


async def test_a_key_is_named_by_the_version_that_wraps_it_though_a_new_one_began_unseen(
    api: TransitApi, tmp_path: Path
) -> None:
    """Else no erasure finds it once the old version goes."""
    wrapper = make_wrapper(api, tmp_path)
    await wrapper.index(PERSON)
    api.rotate()
    ((owner, wrapped),) = await wrap_named(wrapper, [(WHOSE.key_id, WHOSE.tenant, SECRET)])
    fresh = make_wrapper(api, tmp_path)
    assert wrapped.by == (await fresh.list_masters())[0]
    assert owner.name == (await fresh.index(PERSON))[0]
    assert await fresh.unwrap([(owner, wrapped)]) == [SECRET]
    for each in (wrapper, fresh):
        await each.close()


@pytest.mark.parametrize("fault", [403, 429, 500, 503, 301, 204])
async def test_a_server_that_fails_is_an_error_and_the_next_call_asks_again(
    api: TransitApi, tmp_path: Path, fault: int
) -> None:
    wrapper = make_wrapper(api, tmp_path)
    api.faults.append(fault)
    with pytest.raises(TransitError, match=str(fault)):
        await wrapper.wrap([(WHOSE, SECRET)])
    assert len(await wrapper.wrap([(WHOSE, SECRET)])) == 1
    await wrapper.close()


async def test_a_batch_in_which_no_key_opens_is_no_failure_of_the_server(
    api: TransitApi, tmp_path: Path
) -> None:
    """Who writes one false record would else stop whoever seals or opens."""
    wrapper = make_wrapper(api, tmp_path)
    (wrapped,) = await wrapper.wrap([(WHOSE, SECRET)])
    assert await wrapper.unwrap([(WHOSE._replace(name=b"bob"), wrapped)]) == [None]
    assert await wrapper.unwrap([(WHOSE._replace(name=b"bob"), wrapped)] * 2) == [None, None]
    assert await wrapper.unwrap([(WHOSE, wrapped), (WHOSE._replace(name=b"bob"), wrapped)]) == [SECRET, None]
    await wrapper.close()


async def test_an_internal_error_at_one_key_does_not_say_that_it_is_none(
    api: TransitApi, tmp_path: Path
) -> None:
    wrapper = make_wrapper(api, tmp_path)
    (wrapped,) = await wrapper.wrap([(WHOSE, SECRET)])
    for faults in ([True], [False, True]):
        api.item_faults = list(faults)
        with pytest.raises(TransitError, match="500"):
            await wrapper.unwrap([(WHOSE, wrapped)] * len(faults))
    assert await wrapper.unwrap([(WHOSE, wrapped)] * 2) == [SECRET] * 2
    await wrapper.close()


async def test_where_transit_may_not_name_by_a_version_in_force_it_says_what_to_set(
    api: TransitApi, tmp_path: Path
) -> None:
    before = make_wrapper(api, tmp_path)
    (old_name,) = await before.index(PERSON)
    (wrapped,) = await before.wrap([(WHOSE, SECRET)])
    api.rotate()
    api.oldest_encrypting = 2
    wrapper = make_wrapper(api, tmp_path)
    with pytest.raises(TransitError, match="min_encryption_version to 0"):
        await wrapper.index(PERSON)
    assert await wrapper.unwrap([(WHOSE, wrapped)]) == [SECRET], "who opens needs no names"
    api.oldest_encrypting = 0
    after = make_wrapper(api, tmp_path)
    assert (await after.index(PERSON))[1:] == [old_name]
    for each in (before, wrapper, after):
        await each.close()


async def test_many_persons_are_named_with_few_requests(api: TransitApi, tmp_path: Path) -> None:
    wrapper = make_wrapper(api, tmp_path)
    persons = [number.to_bytes(32, "big") for number in range(MOST_BATCH + 1)]
    names = await wrapper.index_all([*persons, persons[0]])
    assert names[-1] == names[0] == await wrapper.index(persons[0])
    assert len({name for of_person in names for name in of_person}) == len(persons)
    assert api.asked == [("keys", 0), ("hmac", MOST_BATCH), ("hmac", 1)]
    await wrapper.close()


async def test_no_error_says_a_key_or_the_token(
    api: TransitApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    wrapper = make_wrapper(api, tmp_path)
    (wrapped,) = await wrapper.wrap([(WHOSE, SECRET)])
    assert await wrapper.unwrap([(WHOSE, wrapped)]) == [SECRET]
    await wrapper.close()
    others = [make_wrapper(api, tmp_path, key="none")]
    with pytest.raises(TransitError) as unknown:
        await others[0].wrap([(WHOSE, SECRET)])
    others.append(make_wrapper(api, tmp_path, "hvs.another-token"))
    with pytest.raises(TransitError) as refused:
        await others[1].unwrap([(WHOSE, wrapped)])
    said = f"{unknown.value} {refused.value} {caplog.text}"
    for secret in ("kkkk", "a2tra2tr", TOKEN, "hvs.another-token"):
        assert secret not in said
    for other in others:
        await other.close()


async def test_without_server_or_token_it_says_so(api: TransitApi, tmp_path: Path) -> None:
    address = TransitAddress("http://127.0.0.1:9", "transit", KEY, tmp_path / "token", 1.0)
    with pytest.raises(TransitError, match="token"):
        await TransitKeyWrapper(address).list_masters()
    wrapper = make_wrapper(api, tmp_path)
    lost = TransitKeyWrapper(address)
    with pytest.raises(TransitError, match="does not answer: ConnectError"):
        await lost.list_masters()
    await wrapper.close()
    await lost.close()

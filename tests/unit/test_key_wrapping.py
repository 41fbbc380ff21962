"""A person's key on its way to a topic: nobody without the master key learns the key or whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.cli.policy.rewrap import wrap_anew
from sluice.client.key_records import LyingKey, digest_person, read_lying, read_wrapped_key
from sluice.secrets.key_wrapping import FileKeyWrapper, KeyOwner, PersonKey, Wrapped, wrap_named
from sluice.secrets.redis_seal import make_seal_key
from sluice_topics.sealing import Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

ALICE = digest_person("acme", Subject("subject", "alice"))
KEY = PersonKey(b"k" * 64, ALICE)
WHOSE = KeyOwner("0a" * 16, "acme", b"alice")
OTHERS = [WHOSE._replace(key_id="0b" * 16), WHOSE._replace(tenant="other"), WHOSE._replace(name=b"bob")]


def make_wrapper(*keys: bytes) -> FileKeyWrapper:
    return FileKeyWrapper(lambda: keys)


async def test_a_wrapped_key_opens_for_its_id_tenant_and_person_alone_and_not_when_it_was_altered() -> None:
    wrapper = make_wrapper(make_seal_key())
    (wrapped,) = await wrapper.wrap([(WHOSE, KEY)])
    assert KEY.secret not in wrapped.text
    altered = Wrapped(wrapped.text[:-1] + bytes([wrapped.text[-1] ^ 1]), wrapped.by)
    asked = [(WHOSE, wrapped), *((other, wrapped) for other in OTHERS), (WHOSE, altered)]
    assert await wrapper.unwrap(asked) == [KEY, None, None, None, None]


async def test_after_a_rotation_the_new_master_key_wraps_and_the_old_one_opens_until_it_is_gone() -> None:
    old, new = make_seal_key(), make_seal_key()
    (wrapped,) = await make_wrapper(old).wrap([(WHOSE, KEY)])
    both = make_wrapper(new, old)
    assert await both.unwrap([(WHOSE, wrapped)]) == [KEY]
    (again,) = await both.wrap([(WHOSE, KEY)])
    assert [again.by, wrapped.by] == await both.list_masters()
    assert await make_wrapper(new).unwrap([(WHOSE, wrapped), (WHOSE, again)]) == [None, KEY]


async def test_a_person_is_found_by_the_master_key_alone_and_is_another_one_in_each_tenant() -> None:
    old, new = make_seal_key(), make_seal_key()
    (name,) = await make_wrapper(old).index(ALICE)
    assert await make_wrapper(new, old).index(ALICE) == [*await make_wrapper(new).index(ALICE), name]
    others = [
        digest_person("other", Subject("subject", "alice")),
        digest_person("acme", Subject("session", "alice")),
        digest_person("acme", Subject("subject", 'alice", "')),
        digest_person("acme", Subject("subject", "\ud800")),
    ]
    names = [*await make_wrapper(new).index(ALICE), name]
    names += [one for other in others for one in await make_wrapper(old).index(other)]
    assert len(set(names)) == len(names)


async def test_only_what_is_due_is_wrapped_anew_and_under_the_name_by_the_new_key() -> None:
    old, new = make_seal_key(), make_seal_key()
    before, both, after = make_wrapper(old), make_wrapper(new, old), make_wrapper(new)
    ((old_name,), (new_name,)) = await before.index(ALICE), await after.index(ALICE)
    owner = KeyOwner("0a" * 16, "acme", old_name)
    (wrapped,) = await before.wrap([(owner, KEY)])
    false = [(owner._replace(name=b"bob"), wrapped), (owner, wrapped._replace(text=b"0" * 200))]
    lying = [LyingKey(owner, wrapped), *(LyingKey(*each) for each in false)]

    records, lost = await wrap_anew(both, [("0a" * 16, lying)], ())
    assert lost == []
    read = read_wrapped_key("0a" * 16, records["0a" * 16])
    assert read is not None
    rewrapped = read_lying(read)
    assert rewrapped.owner == owner._replace(name=new_name)
    assert await after.unwrap([rewrapped]) == [KEY]
    for records_then in ([*lying, rewrapped], [rewrapped]):
        assert await wrap_anew(both, [("0a" * 16, records_then)], ()) == ({}, [])
    again, _ = await wrap_anew(both, [("0a" * 16, [rewrapped, lying[2]])], ())
    assert again.keys() == {"0a" * 16}, "what somebody wrote behind it would be all that is left of it"
    assert await wrap_anew(both, [("0a" * 16, lying)], {("acme", "0a" * 16)}) == ({}, [])
    assert await wrap_anew(after, [("0a" * 16, lying)], ()) == ({}, ["0a" * 16])


async def test_where_the_first_key_changes_while_a_key_is_named_both_are_done_again() -> None:
    old, new = make_seal_key(), make_seal_key()
    in_force: list[tuple[bytes, ...]] = [(old,)]

    class Changed(FileKeyWrapper):
        async def wrap(self, keys: Sequence[tuple[KeyOwner, PersonKey]]) -> list[Wrapped]:
            in_force[:] = [(new, old)]
            return await super().wrap(keys)

    ((owner, wrapped),) = await wrap_named(Changed(lambda: in_force[0]), [("0a" * 16, "acme", KEY)])
    after = make_wrapper(new)
    assert [owner.name] == await after.index(ALICE)
    assert await after.unwrap([(owner, wrapped)]) == [KEY]

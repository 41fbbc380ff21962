"""A person's key on its way to a topic: nobody without the master key learns the key or whose it is."""

from __future__ import annotations

import pytest

from sluice.client.subject_keys import name_person
from sluice.secrets.key_wrapping import FileKeyWrapper, KeyNotOpened, KeyOwner, Wrapped
from sluice.secrets.redis_seal import make_seal_key
from sluice_topics.sealing import Subject

KEY = b"k" * 64
WHOSE = KeyOwner("0a" * 16, "acme", b"alice")
OTHERS = [WHOSE._replace(key_id="0b" * 16), WHOSE._replace(tenant="other"), WHOSE._replace(person=b"bob")]
ALICE = name_person("acme", Subject("subject", "alice"))


def make_wrapper(*keys: bytes) -> FileKeyWrapper:
    return FileKeyWrapper(lambda: keys)


async def test_a_wrapped_key_opens_for_its_id_tenant_and_person_alone_and_not_when_it_was_altered() -> None:
    wrapper = make_wrapper(make_seal_key())
    wrapped = await wrapper.wrap(WHOSE, KEY)
    assert KEY not in wrapped.text
    assert await wrapper.unwrap(WHOSE, wrapped) == KEY
    altered = Wrapped(wrapped.text[:-1] + bytes([wrapped.text[-1] ^ 1]), wrapped.by)
    for whose, text in (*((other, wrapped) for other in OTHERS), (WHOSE, altered)):
        with pytest.raises(KeyNotOpened, match="altered, or is another one's"):
            await wrapper.unwrap(whose, text)


async def test_after_a_rotation_the_new_master_key_wraps_and_the_old_one_opens_until_it_is_gone() -> None:
    old, new = make_seal_key(), make_seal_key()
    wrapped = await make_wrapper(old).wrap(WHOSE, KEY)
    both = make_wrapper(new, old)
    assert await both.unwrap(WHOSE, wrapped) == KEY
    assert (await both.wrap(WHOSE, KEY)).by != wrapped.by
    with pytest.raises(KeyNotOpened, match="is not in the file"):
        await make_wrapper(new).unwrap(WHOSE, wrapped)


async def test_a_person_is_found_by_the_master_key_alone_and_is_another_one_in_each_tenant() -> None:
    old, new = make_seal_key(), make_seal_key()
    (name,) = await make_wrapper(old).index(ALICE)
    assert await make_wrapper(new, old).index(ALICE) == [*await make_wrapper(new).index(ALICE), name]
    others = [
        name_person("other", Subject("subject", "alice")),
        name_person("acme", Subject("session", "alice")),
        name_person("acme", Subject("subject", 'alice", "')),
        name_person("acme", Subject("subject", "\ud800")),
    ]
    names = [*await make_wrapper(new).index(ALICE), name]
    names += [one for other in others for one in await make_wrapper(old).index(other)]
    assert len(set(names)) == len(names)

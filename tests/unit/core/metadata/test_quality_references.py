"""The quick look at a reference's form, held against the whole rules that it saves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.metadata.provenance import find_fault, find_form_fault, make_unverified

HOSTS = st.sampled_from(
    [
        "docs.example.com",
        "a.localhost",
        "a.LocalHost",
        "localhost.com",
        "x-localhost.de",
        "127.0.0.1",
        "a-.b",
        "-a.de",
    ]
)
PATHS = st.text(st.sampled_from("/?#@:[]%+.aDoc-4711&= é"), max_size=20) | st.sampled_from(
    ["/doc-4711", "/DOC-4711.pdf", "?id=doc-4711", "/xdoc-4711", "/%64oc-4711"]
)


@given(
    st.sampled_from(["http", "https", "HTTPS"]), HOSTS, st.sampled_from(["", "/", "?", "#", ":80/"]), PATHS
)
def test_the_quick_look_at_a_reference_finds_what_the_whole_rules_find(
    scheme: str, host: str, between: str, path: str
) -> None:
    uri = f"{scheme}://{host}{between}{path}"
    fault = find_fault(uri, {"http", "https"}, ("doc-4711",))
    assert find_form_fault(uri, frozenset({"http", "https"}), "doc-4711") == (
        fault and make_unverified(fault)
    )

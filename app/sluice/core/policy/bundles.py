"""Policy bundles: every number and table that the gates use, validated and compiled when loaded.

This package is below the gates and names none of them. It gets the gates' parts as values of one form
(BundlePart; sluice/core/actions/stages.py lists the gates) and joins them with the fields that all gates
share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import ValidationError, create_model

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import first_error, json_object
from sluice.core.policy.bundle_frame import ActionTypePolicy, BundleFrame, build_classifier
from sluice.core.policy.gate_modes import get_mode
from sluice.detection.call_inspection import PatternLibrary
from sluice.detection.text_inspection import ContentInspector, ContentSets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.detection.call_inspection import PatternSets
    from sluice_topics.relaxations import Direction


NO_MODEL_BEFORE = "fast_reject"
"""A gate that asks a model runs behind this one: what Gate 1 denies at once waits for no model."""
REMEMBERED_TOOL_NAMES = 4096
REMEMBERED_CONTENT = 2
REMEMBERED_PATTERNS = 8
_ABOUT_FILE = """A bundle as it is written down. `stages`: the gates of actions in their order; no other one
runs.

What stands under a gate's name is that gate's own part ([gates.md](gates.md))."""


class Bundle:
    """A loaded bundle: its file's fields, its hash and its compiled parts.

    `file` is as it was written. `written` and `parts` have each gate's part by its key, as it is in the file
    and as it was compiled, and `modes` its mode.
    """

    def __init__(self, file: BundleFrame, bundle_hash: str, parts: Sequence[BundlePart[Any]] = ()) -> None:
        """Raises BundleError when a pattern or a gate's part does not compile."""
        self.file = file
        self.id = file.id
        self.revision = file.revision
        self.hash = bundle_hash
        self.stages = tuple(file.stages)
        self.action_types: dict[str, ActionTypePolicy] = dict(file.action_types.items())
        self.irreversible_row_threshold = file.irreversible_row_threshold
        self.escalation_ttl_ms = file.escalation_ttl_ms
        self.approvals = file.approvals
        self.largest_rows_upper_bound = max(
            action_type.rows_upper_bound for action_type in file.action_types.values()
        )
        self.library = _compile_library(_WrittenPatterns(file.patterns.model_dump_json(), file.patterns))
        self.written: dict[str, Any] = {part.key: getattr(file, part.key) for part in parts}
        self.parts: dict[str, Any] = {part.key: part.compile(self.written[part.key]) for part in parts}
        self.modes = {key: get_mode(value) for key, value in self.written.items()}
        self.memory = file.memory
        self.outcomes = file.outcomes
        self.inspector = _compile_inspector(file.memory.content.model_dump_json())
        self.personal = tuple(mark.make_field() for mark in file.personal)
        self.cases = file.cases
        self.classified = lru_cache(maxsize=REMEMBERED_TOOL_NAMES)(build_classifier(file.action_types))
        """A tool's action type by the words of its name (`build_classifier`)."""


@dataclass(frozen=True, slots=True)
class _WrittenPatterns:
    """A bundle's patterns, told from others by their JSON."""

    written: str
    sets: PatternSets = field(compare=False)


@lru_cache(maxsize=REMEMBERED_PATTERNS)
def _compile_library(patterns: _WrittenPatterns) -> PatternLibrary:
    """Most revisions leave the patterns as they are too, and they are a third of a bundle's loading."""
    return PatternLibrary(patterns.sets)


@lru_cache(maxsize=REMEMBERED_CONTENT)
def _compile_inspector(content: str) -> ContentInspector:
    """Most revisions of a bundle leave the content library as it is, and it takes seconds to compile."""
    return ContentInspector(ContentSets.model_validate_json(content))


class BundleForm:
    """The form of a policy bundle: the frame, and each gate's part under its key.

    `parts` are the gates' in their order; `model` is the pydantic model of a whole bundle.
    """

    def __init__(self, parts: Iterable[BundlePart[Any]]) -> None:
        """Raises ValueError for a part whose key is a field of the frame, or another part's."""
        self.parts = tuple(parts)
        keys = [part.key for part in self.parts]
        if len({*keys, *BundleFrame.model_fields}) != len(keys) + len(BundleFrame.model_fields):
            raise ValueError(f"a key of {keys} is taken already")
        fields: dict[str, Any] = {part.key: (part.annotation, part.default) for part in self.parts}
        self.model: type[BundleFrame] = create_model(
            "BundleFile", __base__=BundleFrame, __doc__=_ABOUT_FILE, **fields
        )

    def load(self, raw: bytes, bundle_hash: str | None = None) -> Bundle:
        """The bundle in a file's bytes. `bundle_hash`: the digest of what they say, if it is known.
        Raises BundleError with the path and the reason."""
        try:
            document: dict[str, Any] = json_object(raw)
            file = self.model.model_validate(document)
            self._check_models_come_late(file)
            return Bundle(file, bundle_hash or digest(document), self.parts)
        except ValidationError as error:
            raise BundleError(first_error(error)) from None
        except ValueError as error:
            raise BundleError(str(error)) from None

    def _check_models_come_late(self, file: BundleFrame) -> None:
        """Raises BundleError for a gate that asks a model and comes before `fast_reject`."""
        if NO_MODEL_BEFORE not in file.stages:
            return
        early = file.stages[: file.stages.index(NO_MODEL_BEFORE)]
        for part in self.parts:
            if part.key in early and part.asks(getattr(file, part.key)):
                description = f"$.stages: {part.key} asks a model and must come after {NO_MODEL_BEFORE}"
                raise BundleError(description)


Written = TypeVar("Written")


def keep_as_written(part: Any) -> Any:
    """A part that needs no compiling."""
    return part


def never_asks(part: Any) -> bool:
    """Of a gate that asks no model."""
    del part
    return False


def always_asks(part: Any) -> bool:
    """Of a gate that is there to ask one."""
    del part
    return True


@dataclass(frozen=True, slots=True)
class BundlePart(Generic[Written]):
    """`key`: the field of the bundle, the gate's name. `written`: the field's type, a pydantic model or a
    list of them. `default`: its value where a bundle leaves it out; `...`: it must be there.

    `compile` returns the form that the gate uses; it raises BundleError, with the path in the bundle. `asks`:
    whether the gate may ask a model. `direction`: which way a list is stricter; a model's fields say it
    themselves.
    """

    key: str
    written: type[Written]
    default: Any = ...
    compile: Callable[[Written], Any] = keep_as_written
    asks: Callable[[Written], bool] = never_asks
    direction: Direction | None = None

    @property
    def annotation(self) -> Any:
        """The annotation of the bundle's field."""
        return self.written if self.direction is None else Annotated[self.written, self.direction]

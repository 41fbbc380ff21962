"""What one action may have parsed and unfolded. What would come after is not: the reading is inconclusive."""

from __future__ import annotations

from sluice.detection.disguises.unfold import TooManyForms

PARSED_CHARS_PER_ACTION = 4 * 1024
"""All that one action gives to parsers: 1 to 2 ms for each thousand."""
CODE_CHARS = 32 * 1024
"""A longer program is not searched for commands and statements."""
PORTION = 32
"""So many leaves are scanned together; only where the scan of a portion answers is each asked alone."""
PYTHON_CHARS = 8 * 1024
"""What of one action's code is read with Python's grammar, and what by its calls."""
NESTED = 4
"""How deep a language within a language is followed."""
UNFOLDED_CHARS = 3072
"""A longer text is not unfolded, nor more than so many characters of an action's disguises read."""
LARGE_CHARS = 16 * 1024
"""An action of more text spends its time on the linear scan of it."""
PARSED_CHARS_WITH_LARGE, PARSED_TEXTS_WITH_LARGE, UNFOLDED_CHARS_WITH_LARGE = 512, 8, 1024
"""What such an action gives to parsers, and has unfolded."""


SHELL_WORK_PER_ACTION = 2.0
"""All shell texts of an action together; what one text may cost is 1.0 (shell/bounds.py), some 10 ms."""


class Allowance:
    """Counts down what is read of an action.

    `shell_work` is what is left; `spent`: a text was not parsed, and so is no later one; `all_unfolded`:
    the same of disguises.
    """

    __slots__ = (
        "_forms",
        "_forms_left",
        "_parsed",
        "_parsed_left",
        "_texts_left",
        "all_unfolded",
        "shell_work",
        "spent",
    )

    def __init__(self, chars: int) -> None:
        """For an action whose texts have so many characters together."""
        large = chars > LARGE_CHARS
        self._parsed = self._parsed_left = PARSED_CHARS_WITH_LARGE if large else PARSED_CHARS_PER_ACTION
        self._texts_left = PARSED_TEXTS_WITH_LARGE if large else PARSED_CHARS_PER_ACTION
        self._forms = self._forms_left = UNFOLDED_CHARS_WITH_LARGE if large else UNFOLDED_CHARS
        self.shell_work = SHELL_WORK_PER_ACTION
        self.spent = self.all_unfolded = False

    def refused(self, text: str) -> str | None:
        """Why the text may not be parsed any more, None where it may."""
        self._parsed_left -= len(text)
        self._texts_left -= 1
        self.spent = self._parsed_left < 0 or self._texts_left < 0
        return f"more than {self._parsed} characters to parse" if self.spent else None

    def spend_on_form(self, form: str) -> None:
        """Count a form of a text before it is read. Raises TooManyForms where no more may be read."""
        self._forms_left -= len(form)
        self.all_unfolded = self._forms_left < 0
        if self.all_unfolded:
            raise TooManyForms(f"more than {self._forms} characters of disguises")

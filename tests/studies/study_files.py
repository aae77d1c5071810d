"""Studies of a test's own: made from a text, and refused with one line that helps."""

from pathlib import Path

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan.factorial import make_study
from bakeoff.spec import Study
from bakeoff.spec.study_file import read_study


def study_of(folder: Path, text: str, *, scale: str = "") -> Study:
    """The study that a file `my.yaml` of this text becomes."""
    path = folder / "my.yaml"
    path.write_text(text)
    return make_study(read_study(path, scale=scale), seed=7)


def assert_refused(folder: Path, text: str, *, line: int, named: str, remedy: str, scale: str = "") -> None:
    """The text has a mistake, reported in one line: where it is, what it is, and what to do."""
    with pytest.raises(SpecError) as caught:
        study_of(folder, text, scale=scale)
    message = str(caught.value)
    assert message.startswith(f"my.yaml:{line}: "), message
    assert named in message
    assert remedy in message
    assert "\n" not in message


def changed(text: str, old: str, new: str) -> str:
    """The text with one part replaced, which must be there."""
    assert old in text
    return text.replace(old, new)

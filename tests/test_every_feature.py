"""Any feature's folder can be deleted: all tests except the feature's own still pass."""

import pytest

from bakeoff.features import NAMES
from tests.test_features import require_passes, tree_without

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

# Tests of whole programs, of the repository, and of this.
LEFT_OUT = (
    "bench", "first_hour", "sysbench", "validation", "test_architecture.py", "test_crates.py", "test_docs.py",
    "test_every_feature.py", "test_features.py", "test_wheel.py",
)  # fmt: skip


@pytest.mark.parametrize("feature", NAMES)
def test_without_a_feature_all_other_tests_pass(feature, tmp_path):
    tree = tree_without(feature, tmp_path)
    require_passes(tree, "-n", "2", "tests", *(f"--ignore=tests/{name}" for name in LEFT_OUT), tests_min=1500)

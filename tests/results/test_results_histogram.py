import base64
import json
from pathlib import Path

import numpy as np
import pytest

from bakeoff.errors import ResultsError
from bakeoff.results import decode_histogram

GOLDEN = json.loads((Path(__file__).parent / "golden_histogram.json").read_text())


def test_quantiles_match_the_library_that_wrote_the_histogram():
    histogram = decode_histogram(GOLDEN["hdr"])
    assert histogram.total == 5004
    quantiles = np.array([float(quantile) for quantile in GOLDEN["quantiles_ns"]])
    assert histogram.quantiles(quantiles).tolist() == list(GOLDEN["quantiles_ns"].values())


@pytest.mark.parametrize("cut", [0, 3, 9, 40, 400])
def test_a_truncated_histogram_is_an_error(cut):
    raw = base64.b64decode(GOLDEN["hdr"])
    with pytest.raises(ResultsError, match="cannot be read"):
        decode_histogram(base64.b64encode(raw[:cut]).decode())


@pytest.mark.parametrize("text", ["", "no base64 !", "AAAAAAAAAAA="])
def test_invalid_histogram_text_is_an_error(text):
    with pytest.raises(ResultsError, match="cannot be read"):
        decode_histogram(text)

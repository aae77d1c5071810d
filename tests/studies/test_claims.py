"""Published claims of a study file: which pairs and cells they speak of."""

import pytest
from study_files import study_of

from bakeoff.errors import SpecError

STUDY = """\
title: Charsets
servers: ["mysql:5.7", "mysql:8.0"]
factors:
  collation: [latin1_swedish_ci, utf8mb4_general_ci, utf8mb4_0900_ai_ci]
  prepare_mode: [server, client]
where:
  - not: {server: "mysql:5.7", collation: utf8mb4_0900_ai_ci}
workloads: [oltp_read_only, oltp_point_select]
threads: [1, 16]
"""


def test_claims_are_matched_to_their_pairs_and_cells(tmp_path):
    text = STUDY + (
        "published:\n  source: somebody\n  claims:\n"
        "    - {says: ahead, ratio: 1.1..1.2, threads: 16,\n"
        '       of: {server: "mysql:8.0"}, over: {server: "mysql:5.7"}}\n'
    )
    study = study_of(tmp_path, text)
    labels = {arm.name: arm.label for arm in study.arms}
    claims = study.design.published.claims
    pairs = {(labels[each.numerator], labels[each.denominator]) for each in claims}
    assert len(pairs) == 4  # 0900 came with 8.0
    assert all(upper == lower.replace("mysql:5.7", "mysql:8.0") for upper, lower in pairs)
    assert {each.cell for each in claims} == {"oltp_read_only/16", "oltp_point_select/16"}
    assert {(each.low, each.high) for each in claims} == {(1.1, 1.2)}
    for change, said, line in (("1.1..1.2", "much", 13), ('"mysql:5.7"}}', '"mysql:5"}}', 14)):
        with pytest.raises(SpecError, match=rf"my.yaml:{line}: published.claims.0"):
            study_of(tmp_path, text.replace(change, said))

"""A run whose arms differ in two settings of one server; the contender is slower."""

from plain_analysis import plain_analysis
from synthetic import Truth, duel_study, make_run

from bakeoff.spec import parse_server

BASELINE = "mysql:8.0,sort_buffer_size=4M,innodb_flush_method=fsync"
CONTENDER = "mysql:8.0,sort_buffer_size=32K,innodb_flush_method=O_DIRECT"


def options_study():
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    arms = [
        arm.model_copy(update={"server": parse_server(text), "label": label, "data": study.baseline.data})
        for arm, text, label in zip(study.arms, (BASELINE, CONTENDER), ("large sort buffer", "small one"), strict=True)
    ]
    return study.model_copy(update={"arms": tuple(arms)})


def slower(folder):
    study = options_study()
    run = make_run(folder, study, truth=Truth(effect={"B": -0.3}))
    return run, plain_analysis(run, study)

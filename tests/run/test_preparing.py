"""Preparing arms, until the user interrupts it."""

import threading

import pytest
from messages import study

from bakeoff.errors import ServerError
from bakeoff.run import arms
from bakeoff.run.arms import download_reporter
from bakeoff.stats.progress import Listener


def prepare(stop, monkeypatch, install):
    monkeypatch.setattr(arms, "_prepare_arm", install)
    return arms.prepare_arms(study(), None, passwords={}, on_progress=lambda *_: None, stop=stop)


def test_no_further_server_is_fetched_after_ctrl_c(monkeypatch):
    stop, begun = threading.Event(), []

    def install(arm, *_):
        begun.append(arm.name)
        stop.set()

    with pytest.raises(KeyboardInterrupt):
        prepare(stop, monkeypatch, install)
    assert begun == ["A"]


def test_a_download_that_ends_with_ctrl_c_has_not_failed(monkeypatch):
    stop = threading.Event()

    def install(*_):
        stop.set()
        raise ServerError("mysql:8.0 could not be fetched: mvn says: killed")

    with pytest.raises(KeyboardInterrupt):
        prepare(stop, monkeypatch, install)


def test_a_stopped_download_ends_at_its_next_chunk():
    stop = threading.Event()
    report = download_reporter(Listener(), stop)
    report("fetching mysql:8.0", 1, 2)
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        report("fetching mysql:8.0", 2, 2)

"""Mistakes in `replay`, `capture` and duels of captures: one line, and nothing left behind."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "named", "remedy"),
    [
        (["replay", "q.sql", "mysql://a@h/shop", "mysql://b@h/shop"], "given twice", "another database"),
        (["replay", "q.sql", "mysql:8.0", "mysql:5.7", "--writes"], "only for running servers", "Leave it out."),
        (["replay", "q.sql", "mysql:8.0", "mysql:5.7", "--i-have-a-backup"], "with --writes", "or leave it out."),
        (
            ["replay", "q.sql", "mysql://a@h/", "mysql://b@i/", "--i-have-a-backup"],
            "applies with --writes",
            "--writes too",
        ),
        (["capture", "no.log", "-O", "."], ". is not a file", "Name one with -o"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(shell, inside, arguments, named, remedy):
    ran = inside(*arguments)
    assert (ran.code, shell.runs) == (2, [])
    assert named in ran.complaint and remedy in ran.complaint


def test_several_captures_may_compare_two_databases_of_one_server(shell, inside):
    for name in ("one", "two"):
        (shell.folder / f"{name}.capture").write_bytes(b"\x28\xb5\x2f\xfd")
    pair = ("mysql://a@127.0.0.1:1/x", "mysql://a@127.0.0.1:1/y")
    ran = inside("duel", *pair, "-w", "one.capture,two.capture", "--dry-run")
    assert ran.code != 0 and "given twice" not in ran.complaint, ran

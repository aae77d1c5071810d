import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.cli import main
from bakeoff.redaction import Redactor, without_url_passwords


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("mysql://root:geheim@db:3306/", "mysql://root:***@db:3306/"),
        ("mysql://root:hunter2@longtail99@db/", "mysql://root:***@db/"),
        ("mysql://bench@corp:geheim@db/?socket=/x@y", "mysql://bench@corp:***@db/?socket=/x@y"),
        ("mysql://a:x@h1/,mysql://b:y@z@h2:3306/", "mysql://a:***@h1/,mysql://b:***@h2:3306/"),
        ("mysql://root@db:3306/", "mysql://root@db:3306/"),
        ("see http://db:80/me@home", "see http://db:80/me@home"),
        ("--mysql-password=geheim --threads=4", "--mysql-password=*** --threads=4"),
        ("password = 'ge heim'\nuser = x", "password = ***\nuser = x"),
        ("MYSQL_PWD=geheim bakeoff", "MYSQL_PWD=*** bakeoff"),
        ("temporary password is generated for root@host: aB3.x", "temporary password is generated for root@host: ***"),
        ("IDENTIFIED WITH mysql_native_password BY 'geheim'", "IDENTIFIED WITH mysql_native_password BY ***"),
        ("default_password_lifetime=0", "default_password_lifetime=0"),
        ("see https://dev.mysql.com/doc", "see https://dev.mysql.com/doc"),
    ],
)
def test_passwords_are_recognised_by_their_form(text, clean):
    assert Redactor().free_text(text) == clean


def test_a_short_common_password_leaves_a_study_readable():
    redactor = Redactor(["mysql", "x"])
    assert redactor.tree({"server": "mysql:8.0", "flavour": "mysql"}) == {"server": "mysql:8.0", "flavour": "mysql"}
    assert redactor.free_text("denied (mysql), mysqld up") == "denied (***), mysqld up"


def test_a_whole_secret_is_redacted_even_if_a_form_matches_part_of_it():
    redactor = Redactor(["one,two three", "mysql"])
    assert redactor.field("--mysql-password=one,two three --threads=4") == "--mysql-password=*** --threads=4"
    assert redactor.free_text("mysql://root:ab@db/") == "***://root:***@db/"


@pytest.mark.parametrize("name", ["report_password", "keyring-migration-password", "wsrep_sst_auth"])
def test_passwords_of_server_options_are_struck_out(name):
    assert Redactor().free_text(f"{name} = s3cret:x\nback_log = 80") == f"{name} = ***\nback_log = 80"


def test_an_error_message_keeps_all_but_the_password_of_a_url(capsys):
    assert main.run(["mysql://root:s3cret@host/", "mysql:8.0"]) == 2
    said = capsys.readouterr().err
    assert "'mysql://root:***@host/'" in said and "bakeoff duel" in said
    denied = "Access denied for user 'root'@'localhost' (using password: YES)"
    assert without_url_passwords(denied) == denied


def test_fields_named_password_are_struck_out_and_settings_are_not():
    tree = {"password": "abc", "old": {"passwd": "abc"}, "password_history": "5", "list": [{"pwd": "q"}], "pwd": 7}
    clean = {"password": "***", "old": {"passwd": "***"}, "password_history": "5", "list": [{"pwd": "***"}], "pwd": 7}
    assert Redactor().tree(tree) == clean
    assert Redactor().tree({"report_password": "abc"}) == {"report_password": "***"}


@given(secret=st.text(min_size=8, max_size=30), before=st.text(max_size=20), after=st.text(max_size=20))
def test_a_long_secret_never_survives(secret, before, after):
    if secret in "***":
        return
    redactor = Redactor([secret, ""])
    assert secret not in redactor.free_text(before + secret + after).replace("***", "\0")
    assert secret not in str(redactor.tree([before + secret])).replace("***", "\0")


def test_a_password_in_a_url_is_overwritten_in_the_process_list():
    code = (
        "import sys; from pathlib import Path; from bakeoff import redaction;"
        "redaction.hide_in_process_list();"
        "print(sys.argv[1]); print(Path('/proc/self/cmdline').read_text())"
    )
    # In Latin-1, the second bytes of `à` and `х` are spaces.
    typed = ["mysql://root:pa%40ss@db:3306/?x=1", "mysql://root:pàss@db/", "mysql://root:х@db/", "mysql:8.0"]
    words = [sys.executable, "-c", code, *typed]
    given, shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert given == typed[0]
    hidden = ["mysql://root:*******@db:3306/?x=1", "mysql://root:*****@db/", "mysql://root:**@db/", "mysql:8.0"]
    assert shown.split("\0")[3:7] == hidden

"""The lists of test/expect say what happens: a row that is not needed is an error, as is a failure without a row."""

import expect
import pytest


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(expect, "listed", lambda name: expect.expand({"add float16,bool out": "a reason"} if name == "unsupported" else {}))


def result(status):
    return {"out": {"status": status, "detail": "what was seen"}}


def test_a_row_that_passes_is_an_error(rows):
    assert expect.surprises("add", "bool", result("fail")) == []
    for status in ("pass", "none"):
        assert expect.surprises("add", "bool", result(status)) == [
            f"add bool out: {status}, but test/expect/unsupported.yaml says: a reason"]


def test_some_samples_do_not_show_that_a_row_is_not_needed(rows):
    assert expect.surprises("add", "bool", result("pass"), complete=False) == []


def test_a_row_may_be_for_one_level_of_the_task_queue(monkeypatch):
    monkeypatch.setattr(expect, "listed", lambda name: expect.expand({"add bool out@2": "a reason"} if name == "unsupported" else {}))
    for level, failing, passing in (("0", 1, 0), ("2", 0, 1)):
        monkeypatch.setenv("TASK_QUEUE_ENABLE", level)
        assert len(expect.surprises("add", "bool", result("fail"))) == failing
        assert len(expect.surprises("add", "bool", result("pass"))) == passing


def test_a_failure_without_a_row_is_an_error(rows):
    assert expect.surprises("add", "int64", result("pass")) == []
    for status in ("fail", "fallback", "crash", "hang"):
        assert expect.surprises("add", "int64", result(status), complete=False) == [f"add int64 out: {status}: what was seen"]


@pytest.mark.parametrize("row", ["add * out", "add bool *", "* bool out"])
def test_rows_have_no_wildcards(row):
    with pytest.raises(ValueError, match="names its operator, dtypes and checks"):
        expect.expand({row: "a reason"})


def test_a_cell_has_one_row():
    with pytest.raises(ValueError, match="add bool out has two rows"):
        expect.expand({"add bool out": "a reason", "add int64,bool out": "another"})

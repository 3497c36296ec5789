"""Checks that are a table: one function, a named check for every row."""

from functools import partial


def each(*tables, **named):
    """Of a function of one row: its `cases`, {name of the row: what runs it}. A table is a list, whose rows' texts are their names, or
    {name: row}."""
    rows = {}
    for table in (*tables, named):
        rows |= table if isinstance(table, dict) else {name_of(row): row for row in table}

    def with_cases(function):
        function.cases = {name: partial(function, row) for name, row in rows.items()}
        return function

    return with_cases


def name_of(row):
    return getattr(row, "__name__", None) or str(row).removeprefix("torch.")

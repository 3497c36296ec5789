"""The report as one HTML page that needs nothing else: what was found, and the changed lines side by side."""

import difflib
import re
from html import escape

from torch_npu.migrate.findings import TITLES, FileResult, Kind

_STYLE = """
:root { --line: #d0d7de; --muted: #59636e; --bad: #ffebe9; --bad-word: #ffb8b0; --good: #dafbe1; --good-word: #9be9a8; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 24px; max-width: 1280px; color: #1f2328; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 19px; margin: 32px 0 8px; }
h3 { font: 600 14px ui-monospace, monospace; margin: 20px 0 4px; }
p { margin: 4px 0 16px; color: var(--muted); }
nav { display: flex; flex-wrap: wrap; gap: 8px; margin: 16px 0; }
nav a { border: 1px solid var(--line); border-radius: 6px; padding: 6px 12px; text-decoration: none; color: inherit; }
nav b { margin-left: 6px; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
td, th { border: 1px solid var(--line); padding: 4px 8px; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { background: #f6f8fa; } .place { width: 26%; } .api { width: 30%; }
.code td { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; border-width: 0 1px; }
.code { border: 1px solid var(--line); } .code td.number { width: 44px; text-align: right; color: var(--muted); padding: 4px 6px; }
.code col.number { width: 48px; } .old { background: var(--bad); } .new { background: var(--good); }
.old mark { background: var(--bad-word); } .new mark { background: var(--good-word); } mark { color: inherit; border-radius: 3px; }
.gap td { background: #f6f8fa; color: var(--muted); text-align: center; } .error { background: var(--bad); }
"""

_MARKED_WORDS = 400  # in a longer line the words that differ are not marked: comparing them takes the square of their number

_FIRST = (Kind.UNSUPPORTED, Kind.UNKNOWN, Kind.CUDA)  # what needs somebody's work


def page(title: str, results: list[FileResult], log: list[str]) -> str:
    counts = {kind: sum(finding.kind is kind for result in results for finding in result.findings) for kind in Kind}
    errors = [result for result in results if result.error]
    changed = [result for result in results if result.changed]
    links = [f'<a href="#{kind.value}">{escape(TITLES[kind])}<b>{counts[kind]}</b></a>' for kind in Kind if counts[kind]]
    links += [f'<a class="error" href="#errors">Left as they are<b>{len(errors)}</b></a>'] if errors else []
    links += [f'<a href="#lines">Lines side by side<b>{len(changed)} files</b></a>'] if changed else []
    body = [
        f"<h1>{escape(title)}</h1><p>{len(results)} files read, {len(changed)} changed, {len(errors)} left as they are.</p>",
        f"<nav>{''.join(links)}</nav>",
        _errors(errors),
        *(_table(kind, results) for kind in _FIRST if counts[kind]),
        _side_by_side(changed),
        *(_table(kind, results) for kind in Kind if counts[kind] and kind not in _FIRST),
        f"<h2>Log</h2><pre>{escape(chr(10).join(log))}</pre>",
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(body)}</body></html>\n'


def _errors(errors: list[FileResult]) -> str:
    if not errors:
        return ""
    rows = "".join(f'<tr class="error"><td>{escape(result.path)}</td><td>{escape(result.error)}</td></tr>' for result in errors)
    return f'<h2 id="errors">Left as they are</h2><table><tr><th class="place">file</th><th>why</th></tr>{rows}</table>'


def _table(kind: Kind, results: list[FileResult]) -> str:
    rows = []
    for result in results:
        for finding in result.findings:
            if finding.kind is kind:
                place = escape(f"{finding.file}:{finding.line}")
                rows.append(f"<tr><td>{place}</td><td>{escape(finding.api)}</td><td>{escape(finding.tip)}</td></tr>")
    head = '<tr><th class="place">place</th><th class="api">what</th><th>advice</th></tr>'
    return f'<h2 id="{kind.value}">{escape(TITLES[kind])}</h2><table>{head}{"".join(rows)}</table>'


def _side_by_side(changed: list[FileResult]) -> str:
    if not changed:
        return ""
    parts = [f"<h3>{escape(result.path)}</h3>{_lines(result)}" for result in changed]
    return f'<h2 id="lines">Lines side by side</h2>{"".join(parts)}'


def _lines(result: FileResult, context: int = 2) -> str:
    old, new = result.before.split("\n"), result.after.split("\n")
    rows: list[str] = []
    done = 0  # lines of the old text that are shown, or left out on purpose
    for index, (a, b, c, d) in enumerate(result.changed_lines):
        start = max(done, a - context)
        if start > done and index:
            rows.append('<tr class="gap"><td colspan="4">…</td></tr>')
        rows += [_row(old, new, line, line + c - a, False) for line in range(start, a)]
        for offset in range(max(b - a, d - c)):
            left = a + offset if a + offset < b else None
            right = c + offset if c + offset < d else None
            rows.append(_row(old, new, left, right, True))
        following = result.changed_lines[index + 1][0] if index + 1 < len(result.changed_lines) else len(old)
        done = min(b + context, following)
        rows += [_row(old, new, line, line + d - b, False) for line in range(b, done)]
    columns = '<colgroup><col class="number"><col><col class="number"><col></colgroup>'
    return f'<table class="code">{columns}{"".join(rows)}</table>'


def _row(old: list[str], new: list[str], left: int | None, right: int | None, changed: bool) -> str:
    a, b = old[left] if left is not None else "", new[right] if right is not None else ""
    if changed and left is not None and right is not None:
        a, b = _words(a, b)
    else:
        a, b = escape(a), escape(b)
    old_class = ' class="old"' if changed and left is not None else ""
    new_class = ' class="new"' if changed and right is not None else ""
    number = lambda value: f'<td class="number">{value + 1 if value is not None else ""}</td>'  # noqa: E731
    return f"<tr>{number(left)}<td{old_class}>{a}</td>{number(right)}<td{new_class}>{b}</td></tr>"


def _words(a: str, b: str) -> tuple[str, str]:
    """Both lines with the words that differ marked."""
    old, new = re.findall(r"\w+|\W", a), re.findall(r"\w+|\W", b)
    if max(len(old), len(new)) > _MARKED_WORDS:
        return escape(a), escape(b)
    left: list[str] = []
    right: list[str] = []
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for words, line in ((old[a1:a2], left), (new[b1:b2], right)):
            text = escape("".join(words))
            line.append(text if tag == "equal" or not text else f"<mark>{text}</mark>")
    return "".join(left), "".join(right)

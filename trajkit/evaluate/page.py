"""An evaluation as one HTML page: no script, nothing loaded, all text of logs escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from trajkit.evaluate.answers import Outcome
from trajkit.evaluate.questions import Bench, Question
from trajkit.evaluate.results import MEASURED, PUBLISHED_JUDGE
from trajkit.explore.show import printable
from trajkit.model import DOMAINS

WORST_PER_DOMAIN = 3
MAX_TEXT_CHARS = 3_000
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;
color:#1c2330;background:#fff}
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2.2rem 0 .5rem}
p{margin:.3rem 0}.wide{overflow-x:auto}.note{color:#5a6475}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4rem 0}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #e4e8ee}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:#5a6475}
tr.sum td{font-weight:600;border-top:2px solid #b9c2cf}
small{color:#5a6475;white-space:nowrap}.bad{color:#a3221b}.good{color:#14683a}
.big{font-size:2.2rem;font-weight:650}
.bar{position:relative;width:8rem;height:.8rem;background:#eef1f5;padding:0}
.bar i{position:absolute;left:0;top:0;bottom:0;background:#4773aa}
.bar b{position:absolute;top:.3rem;height:.2rem;background:#17345a}
details{border:1px solid #e4e8ee;border-radius:.3rem;margin:.4rem 0;padding:.4rem .7rem}
summary{cursor:pointer}pre{background:#f6f8fa;padding:.5rem;white-space:pre-wrap;
overflow-wrap:anywhere;margin:.3rem 0;font-size:13px}
"""
_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width"><title>{title}</title>'
    f"<style>{_STYLE}</style></head><body>"
)


def page(document: Mapping[str, Any], outcomes: Sequence[Outcome], bench: Bench) -> str:
    """Return the page; reads the benchmark once more for the texts of the worst answers."""
    title = f"{document['world_model']['name']} on {document['bench']['name']}"
    parts = [
        _HEAD.replace("{title}", _safe(title)),
        f"<h1>{_safe(title)}</h1>",
        *_overall(document),
        *_bounds(document),
        *_domains(document),
        *_failures(document),
        *_published(document),
        *_moved(document),
        *_agreement(document),
        *_worst(document["scored_by"], outcomes, bench),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _safe(text: object) -> str:
    return escape(printable(str(text)))


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"{row['low']:.1f} to {row['high']:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], last: int = 0) -> str:
    """Return a table of cells that are HTML already; the `last` rows are sums."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = []
    for number, row in enumerate(rows):
        kind = ' class="sum"' if number >= len(rows) - last else ""
        body.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>")
    return f'<div class="wide"><table><tr>{top}</tr>{"".join(body)}</table></div>'


def _find(
    document: Mapping[str, Any], domain: str, axis: str, scorer: str | None = None
) -> Mapping[str, Any]:
    scorer = scorer or document["scored_by"]
    return next(
        row
        for row in document["measures"]
        if (row["scorer"], row["domain"], row["axis"]) == (scorer, domain, axis)
    )


def _overall(document: Mapping[str, Any]) -> Iterator[str]:
    row, micro = _find(document, "macro", "overall"), _find(document, "micro", "overall")
    bench = document["bench"]
    yield (
        f"<p class=note>{bench['questions']:,} questions of {bench['trajectories']:,} "
        f"trajectories, scored by {_safe(document['scored_by'])}. Scores run from 0 to 100; "
        "intervals are 95 %, clustered by trajectory.</p>"
        f'<p><span class="big">{_number(row["score"])}</span> <small>{_interval(row)}</small></p>'
        "<p>Mean of the domains (macro). A question without an observation counts 0; without "
        f"such questions it is {_number(row['answered_score'])}. The mean of all questions "
        f"(micro) is {_number(micro['score'])} <small>{_interval(micro)}</small>.</p>"
    )


def _bounds(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["bounds"]:
        return
    rows = [
        [
            _safe(one["name"]),
            f"{one['least']:g}",
            _number(one["score"]),
            '<span class="good">holds</span>'
            if one["holds"]
            else '<span class="bad">broken</span>',
        ]
        for one in document["bounds"]
    ]
    yield "<h2>Bounds</h2>" + _table(["Bound", "Least", "Score", ""], rows)


def _domains(document: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>By domain and axis</h2>"
    rows = []
    for domain in (*DOMAINS, "macro", "micro"):
        row = _find(document, domain, "overall")
        cells = [_number(_find(document, domain, axis)["score"], 1) for axis in MEASURED[1:]]
        counts = [f"{row[name]:,}" for name in ("rows", "failures", "unscored", "accepted")]
        overall = f"{_number(row['score'], 1)} <small>{_interval(row)}</small>"
        rows.append([domain, overall, _bar(row), *cells, *counts])
    head = ["Domain", "Overall", "", *(axis.capitalize() for axis in MEASURED[1:])]
    yield _table([*head, "Scored", "Failed", "Unscored", "Accepted"], rows, last=2)
    yield (
        "<p class=note>Failed: the world model gave no observation; counted 0. Unscored: the "
        "judge gave no verdict; in no mean. Accepted: the fidelity gate would let it pass.</p>"
    )


def _bar(row: Mapping[str, Any]) -> str:
    if row["score"] is None:
        return ""
    mark = ""
    if row["low"] is not None:
        width = row["high"] - row["low"]
        mark = f'<b style="left:{row["low"]:.1f}%;width:{width:.1f}%"></b>'
    return f'<div class="bar"><i style="width:{row["score"]:.1f}%"></i>{mark}</div>'


def _failures(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [["no observation", _safe(why), f"{n:,}"] for why, n in document["failures"].items()]
    for judge, found in document["unscored"].items():
        rows += [
            [f"no verdict of {_safe(judge)}", _safe(why), f"{n:,}"] for why, n in found.items()
        ]
    if rows:
        yield "<h2>What failed</h2>" + _table(["What", "Reason", "Questions"], rows)
    if document["turns_left_out"]:
        n = document["turns_left_out"]
        yield f"<p class=note>{n:,} oldest turns were left out of prompts that were too long.</p>"


def _published(document: Mapping[str, Any]) -> Iterator[str]:
    row = _find(document, "macro", "overall")
    own = [
        f"<b>{_safe(document['world_model']['name'])}</b>",
        _safe(document["scored_by"]),
        f"<b>{_number(row['score'])}</b>",
    ]
    rows = [own]
    for one in document["published"]:
        rows.append([_safe(one["model"]), _safe(one["judge"]), _number(one["overall"])])
    yield "<h2>Beside the published scores</h2>" + _table(["Model", "Judge", "Overall"], rows)
    same = document["scored_by"].endswith(PUBLISHED_JUDGE)
    if not same or document["bench"]["kind"] != "agentworldbench":
        yield (
            "<p class=note>Scores of different judges, or on other questions, do not compare: "
            "the published ones stand here for orientation only.</p>"
        )


def _moved(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["baseline"]
    if found is None:
        return
    by_place = {(one["domain"], one["axis"]): one for one in found["moved"]}
    rows = []
    for domain in (*DOMAINS, "macro", "micro"):
        cells = [domain]
        for axis in MEASURED:
            one = by_place[domain, axis]
            text = "-"
            if one["difference"] is not None:
                kind = "good" if one["difference"] > 0 else "bad"
                shown = f"{one['difference']:+.1f}"
                text = f'<span class="{kind}">{shown}</span>' if one["clear"] else shown
                text += f" <small>{_interval(one)}</small>"
            cells.append(text)
        rows.append(cells)
    how = "question by question" if found["paired"] else "as independent runs (other questions)"
    yield (
        f"<h2>Moved against {_safe(found['world_model'])} on {_safe(found['bench'])}</h2>"
        + _table(["Domain", *(axis.capitalize() for axis in MEASURED)], rows, last=2)
        + f"<p class=note>Compared {how}. In colour where the interval leaves 0 out.</p>"
    )


def _agreement(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["agreement"]:
        return
    means = []
    for scorer in dict.fromkeys(row["scorer"] for row in document["measures"]):
        found = [_find(document, "macro", axis, scorer) for axis in MEASURED]
        shown = [f"{_number(row['score'], 1)} <small>{_interval(row)}</small>" for row in found]
        means.append([_safe(scorer), *shown])
    yield "<h2>By scorer</h2>" + _table(
        ["Scorer", *(axis.capitalize() for axis in MEASURED)], means
    )
    rows = [
        [
            f"{_safe(one['first'])} and {_safe(one['second'])}",
            one["axis"],
            f"{one['rows']:,}",
            _number(one["mean_absolute_difference"], 1),
            _number(one["rank_correlation"]),
        ]
        for one in document["agreement"]
    ]
    head = ["Scorers", "Axis", "Questions", "Mean difference", "Rank correlation"]
    yield "<h2>Agreement of scorers</h2>" + _table(head, rows)


def _worst(scorer: str, outcomes: Sequence[Outcome], bench: Bench) -> Iterator[str]:
    chosen: dict[str, Outcome] = {}
    for domain in DOMAINS:
        scored = [
            (score, one.key, one)
            for one in outcomes
            if one.domain == domain and (score := one.score(scorer, "overall")) is not None
        ]
        chosen |= {key: one for _, key, one in sorted(scored)[:WORST_PER_DOMAIN]}
    if not chosen:
        return
    texts = {one.key: one for one in bench.read([]) if one.key in chosen}
    yield "<h2>Worst answers of each domain</h2>"
    for key, outcome in chosen.items():
        yield _answer(scorer, outcome, texts[key])


def _answer(scorer: str, outcome: Outcome, question: Question) -> str:
    score = outcome.score(scorer, "overall")
    axes = ", ".join(f"{axis} {_number(outcome.score(scorer, axis), 0)}" for axis in MEASURED[1:])
    gate = "accepts it" if outcome.passed else f"refuses it: {outcome.reason}"
    remark = outcome.remarks.get(scorer, ("", ""))[1]
    pieces = [
        f"<details><summary>{_safe(outcome.domain)} {_number(score, 1)} "
        f"<small>{_safe(outcome.place)}, turn {outcome.turn}</small></summary>",
        f"<p>{_safe(axes)}. The gate {_safe(gate)}.</p>",
        f"<p>The judge: {_safe(_cut(remark))}</p>" if remark else "",
        f"<p>Action</p><pre>{_safe(_cut(question.case.action.action))}</pre>",
        f"<p>Recorded</p><pre>{_safe(_cut(question.case.recorded))}</pre>",
        f"<p>Predicted</p><pre>{_safe(_cut(outcome.prediction or ''))}</pre></details>",
    ]
    return "".join(pieces)


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARS:
        return text
    return f"{text[:MAX_TEXT_CHARS]}\n[{len(text) - MAX_TEXT_CHARS:,} more characters]"

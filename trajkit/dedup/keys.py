"""Keys: texts made comparable, so that what only a clock or a dice changed does not hide a copy.

Only keys are normalised; the data stays. Everything here is a regular expression over a whole
column with ASCII classes, which run many times faster than Unicode ones.
"""

from __future__ import annotations

import polars as pl

VOLATILE = "_v_"
"""What stands in a key for a time, an id, a hash or a temporary path; one word of its own."""

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CLOCK = "[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
_VOLATILE = "|".join(
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[t ]{_CLOCK}(?:z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?",
        rf"{_MONTH} {{1,2}}[0-9]{{1,2}} (?:{_CLOCK}|[0-9]{{4}}(?-u:\b))",
        r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?",
        r"[0-9]+\.[0-9]+ ?(?:ms|s|sec|seconds)(?-u:\b)",
        r"(?-u:\b)0x[0-9a-f]{6,}(?-u:\b)",
        r"(?-u:\b)[0-9]{10,}(?-u:\b)",
        r"(?-u:\b)[0-9a-f]{12,}(?-u:\b)",
        r"(?-u:\b)(?:call|toolu|chatcmpl|msg|req|resp|run|session)[_-]"
        r"[a-z]{0,12}[0-9][0-9a-z]{6,}",
        r"/tmp/(?:tmp[._-]?[0-9a-z_]{6,}|[a-z_.-]*[0-9]{3,}[0-9a-z_.-]*)",
        r"/var/folders/[0-9a-z_+-]+/[0-9a-z_+-]+/t/[0-9a-z_.-]+",
    )
)
# Outside these ranges a character may change under NFC or join the one before it.
_NFC_MAY_CHANGE = (
    r"[^\x{0}-\x{2ff}\x{2010}-\x{20cf}\x{2100}-\x{2121}\x{2190}-\x{2328}\x{232b}-\x{2adb}\x{3000}-\x{3029}"
    r"\x{3030}-\x{3098}\x{309b}-\x{30ff}\x{4e00}-\x{9fff}\x{ac00}-\x{d7a3}\x{fe0f}"
    r"\x{1f000}-\x{1faff}]"
)


def normalised(texts: pl.Series) -> pl.Series:
    """Return the keys of texts; a null stays null.

    NFC, lower case, LF for CRLF and CR, one blank for a run of blanks and tabs inside a line (the
    indentation of a line stays), no blanks at the end of a line, no empty lines, and `_v_` for
    times, dates, durations, UUIDs, ids, long hexadecimal or decimal numbers and temporary paths.

    >>> normalised(pl.Series(["if  A:\\r\\n    Run  at 12:30:07  \\n"])).to_list()
    ['if a:\\n    run at _v_']
    """
    return (
        _composed(texts)
        .str.to_lowercase()
        .str.replace_all("\r\n?", "\n")
        .str.replace_all(r"[ \t\n]+\n", "\n")
        .str.replace_all(r"([^ \t\n])(?:[ \t]{2,}|\t)", "$1 ")
        .str.replace_all(_VOLATILE, VOLATILE)
        .str.strip_chars_end(" \t\n")
    )


def _composed(texts: pl.Series) -> pl.Series:
    """Return the texts in NFC; looks closely only at what is not ASCII and may change."""
    name = texts.name or "text"
    frame = texts.alias(name).to_frame()
    text = pl.col(name)
    rows = (
        frame.with_row_index("row")
        .filter(text.str.len_bytes() != text.str.len_chars())
        .filter(text.str.contains(_NFC_MAY_CHANGE))
    )
    if not rows.height:
        return frame[name]
    return frame[name].scatter(rows["row"], rows[name].str.normalize("NFC"))

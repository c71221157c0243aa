"""Talk of a prediction about itself: apologies, announcements, praise."""

from __future__ import annotations

import re

from trajkit.fidelity.content import edges

TALK_CHARS = 8_000
"""How much of a long answer is searched for talk: it stands at the edges."""
N_EDGE_LINES = 2
"""Lines at either end that are read as remarks."""
MIN_WORDS = 4
MAX_REMARK_CHARS = 400
"""A longer line is content: pages that stand on one line are no remarks."""
MIN_EDGE_CHARS = 4
MIN_LETTER_SHARE = 0.75

_TALK = re.compile(
    r"\bas an ai\b|\bas a (?:large )?language model\b|\bas a world model\b"
    r"|\bi(?:'m| am) (?:sorry|unable)\b|\bi (?:cannot|can't) "
    r"(?:simulate|predict|execute|run|access)\b"
    r"|\b(?:here is|here's|below is|this is) (?:the|a|my) (?:predicted|simulated|expected|likely) "
    r"|\bthe (?:environment|terminal|tool|system|simulator) (?:would|will) (?:likely |then |now )?"
    r"(?:return|print|show|respond|output|answer)\b"
    r"|\b(?:predicted|simulated) (?:observation|output|response|environment)\b"
    r"|\b(?:in|for) this simulation\b|\bthis is a simulat|\blet me (?:think|simulate|predict)\b"
    r"|\bi (?:would|will) (?:expect|predict|simulate)\b|\bplausible (?:output|response)\b",
    re.IGNORECASE,
)
# A remark speaks of the answer as an answer, and says that it is good or how it came about.
_ANSWER = re.compile(
    r"\b(?:observations?|outputs?|responses?|repl(?:y|ies)|answers?|simulat\w+|predict\w*"
    r"|environments?|transitions?|states?|screens?|contents?|results?|details?|lines?)\b",
    re.IGNORECASE,
)
_CLAIM = re.compile(
    r"\b(?:\w*accura\w+|\w*correct\w*|\w*faithful\w*|exact\w*|match\w*|\w*consisten\w+"
    r"|realis\w+|realit\w+|real|plausib\w+|authentic\w*|genuine\w*|verif\w+|confiden\w+|true|truth"
    r"|actual\w*|expected|complete\w*|perfect\w*|\w*reliab\w+|fidelity|identical\w*|precise\w*"
    r"|trust\w*|valid\w*|reproduc\w+|reflect\w*|certain\w*|sure|quality|error-free|flawless\w*"
    r"|agree\w*|indistinguishable|derived|inferred|deduced|based)\b",
    re.IGNORECASE,
)
_ITSELF = re.compile(
    r"\b(?:this|these|above|below|i|my|me|we|our|note|notice|here|following|simulat\w+|predict\w*"
    r"|would|every|everything)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def talk_about_itself(recorded: str, prediction: str) -> str | None:
    """Return what a prediction says about itself and the recording does not; None for nothing.

    Set phrases count wherever they stand near an edge. A sentence at the very edge counts when it
    speaks of the answer as an answer and vouches for it, or when it was plainly added: the
    recorded first or last line stands next to it.

    >>> talk_about_itself("a.txt", "a.txt\\nThis output is what a real shell gives.")
    'This output is what a real shell gives.'
    >>> talk_about_itself("a.txt", "b.txt") is None
    True
    """
    phrases = {match.group().lower() for match in _TALK.finditer(edges(prediction, TALK_CHARS))}
    if phrases:
        phrases -= {
            match.group().lower() for match in _TALK.finditer(edges(recorded, 2 * TALK_CHARS))
        }
    return min(phrases, default=None) or _remark(recorded, prediction)


def _remark(recorded: str, prediction: str) -> str | None:
    lines = [line.strip() for line in edges(prediction, TALK_CHARS).split("\n")]
    lines = [line for line in lines if line]
    known_lines = [line.strip() for line in edges(recorded, 2 * TALK_CHARS).split("\n")]
    known_lines = [line for line in known_lines if line]
    if not known_lines:
        return None
    first, last, known = known_lines[0], known_lines[-1], frozenset(known_lines)
    for number in range(min(N_EDGE_LINES, len(lines))):
        # From the front, then from the back: the line, what stands on its inner side.
        for line, inner, edge in (
            (lines[number], lines[number + 1 : number + 2], first),
            (lines[-1 - number], lines[-2 - number : len(lines) - 1 - number], last),
        ):
            if line in known:
                continue
            added = inner == [edge]
            said = line
            if len(edge) < MIN_EDGE_CHARS:
                pass
            elif line.startswith(edge):
                said, added = line[len(edge) :].strip(), True
            elif line.endswith(edge):
                said, added = line[: -len(edge)].strip(), True
            if _is_prose(said) and (added or _vouches(said)):
                return said
    return None


def _is_prose(line: str) -> bool:
    if len(line) > MAX_REMARK_CHARS:
        return False
    words = _WORD.findall(line)
    letters = sum(map(len, words)) + len(words)
    return len(words) >= MIN_WORDS and letters >= MIN_LETTER_SHARE * len(line)


def _vouches(line: str) -> bool:
    return all(pattern.search(line) for pattern in (_ANSWER, _CLAIM, _ITSELF))

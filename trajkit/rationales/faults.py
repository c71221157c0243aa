"""What makes a text no rationale, whoever wrote it: too short, a refusal, small talk, a loop."""

from __future__ import annotations

import re
import zlib
from collections import Counter

MIN_RATIONALE_CHARS = 20
EDGE_CHARS = 800
"""Refusals and courtesies stand at the edges; in between, a log may be talked about."""
LOOP_CHARS = 400
LOOP_RATIO = 0.1
"""A text of this length that compresses better goes in circles; prose stays over 0.3."""
LONGEST_PERIOD_WORDS = 24
SAME_SENTENCE_SHARE = 0.5

_REFUSAL = re.compile(
    r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b(?! agent)"
    r"|\bi(?:'m| am)(?: (?:very|so|really|truly))? sorry,? (?:but )?i (?:can|could|am|do|will|won)"
    r"|\bi apologi[sz]e,? (?:but )?i (?:can|could|am|do|will|won)"
    r"|\bi(?: can't| cannot| can not| won't| will not|(?:'m| am) (?:unable|not able) to"
    r"| must decline to)"
    r" (?:assist|help(?! but)|comply|fulfil|engage|continue with (?:this|that) (?:request|conver)"
    r"|(?:answer|support|fulfill|process) (?:this|that|your) (?:question|request|query)"
    r"|(?:provide|give|write|share) (?:you )?(?:with )?(?:a |an |the |any |this |that |such )?"
    r"(?:rationale|reasoning|explanation|assistance))"
    r"|\bi (?:do not|don't) have (?:direct |real-time )?access to (?:the |a |any |your )?"
    r"(?:terminal|tools?|environment)\b"
    r"|\btut mir (?:sehr )?leid\b|\bals (?:eine? )?(?:ki|(?:ki-)?sprachmodell)\b"
    r"|\bkann ich (?:dir |ihnen )?(?:leider )?nicht (?:weiter)?(?:helfen|beantworten)"
    r"|\bich kann (?:dir |ihnen |dabei |hierbei )*(?:leider )?nicht (?:weiter)?helfen",
    re.IGNORECASE,
)
_THING = (
    r"(?:reasoning|rationale|explanation|analysis|thoughts?|thinking|breakdown|response|answer)"
)
_OPENING = re.compile(
    r"\W*(?:"
    r"(?:sure(?: thing)?|certainly|absolutely|of course|gladly|no problem)(?:!|[,.:]? "
    r"(?:here(?:'s| is| are)|i(?:'ll| will| can|'d| would)|let me)\b)"
    r"|(?:great|good|excellent) question\b|thank(?:s| you) for\b"
    rf"|(?:below|here)(?:'s| is| are) (?:the|a|an|my|your|some) (?:[\w-]+ ){{0,3}}{_THING}\b"
    r"|(?:gerne?|natürlich|selbstverständlich|klar|sicher)(?:!|[,.:]? hier\b)"
    r"|hier (?:ist|sind|kommt|folgt) (?:die|der|das|meine|eine|ihre|deine) (?:\w+ )?"
    r"(?:begründung|erklärung|antwort|analyse|überlegung)"
    r")",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"\bi hope (?:this|that) helps\b|\blet me know if (?:you|there)\b|\bfeel free to ask\b"
    r"|\bhappy to (?:help|explain|assist)\b|\bas you (?:have )?(?:asked|requested)\b"
    rf"|\b{_THING} (?:that )?you(?:'ve| have)? (?:asked|requested|wanted)\b"
    r"|\bich hoffe,? (?:das|dies) hilft\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[.!?\n]+")


def fault(rationale: str) -> str | None:
    """Return the slug of what is wrong with a text as a rationale, null when nothing is.

    >>> fault("I'm sorry, I can't assist with that.")
    'refusal'
    >>> fault("I can't reach port 5432, so the server must be down.")
    """
    text = rationale.replace("’", "'").strip()
    if len(text) < MIN_RATIONALE_CHARS:
        return "no_rationale"
    head, tail = text[:EDGE_CHARS], text[EDGE_CHARS:][-EDGE_CHARS:]
    if _REFUSAL.search(head) or _REFUSAL.search(tail):
        return "refusal"
    if _OPENING.match(text) or _COURTESY.search(head) or _COURTESY.search(tail):
        return "small_talk"
    return "loop" if _loops(text) else None


def _loops(text: str) -> bool:
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) >= LOOP_CHARS and len(zlib.compress(raw, 1)) / len(raw) < LOOP_RATIO:
        return True
    words = _WORD.findall(text.lower())
    for period in range(1, min(LONGEST_PERIOD_WORDS, len(words) // 4) + 1):
        run = 0
        for place in range(period, len(words)):
            run = run + 1 if words[place] == words[place - period] else 0
            # The phrase has come four times; eight words at least, and a row of numbers is data.
            if run >= max(3 * period, 7) and not all(
                word.isdigit() for word in words[place - period + 1 : place + 1]
            ):
                return True
    sentences = [one for one in map(str.strip, _SENTENCE.split(text.lower())) if len(one) >= 16]
    said = Counter(sentences)
    n_again = sum(len(one) * (n - 1) for one, n in said.items())
    return len(sentences) >= 6 and n_again > SAME_SENTENCE_SHARE * sum(map(len, sentences))

"""Tell thoughts from answers, and turn what a model returned into a completion."""

from __future__ import annotations

from trajkit.worldmodel.protocol import Completion, Request

OPEN = "<think>"
CLOSE = "</think>"


def split_reasoning(text: str, *, opened: bool | None = None) -> tuple[str | None, str]:
    """Return the thoughts, null when there are none, and the answer that follows them.

    Thoughts stand between a leading `<think>` and the first `</think>`, or, when the prompt
    already opened them, before a lone `</think>`. Later tags are text of the answer. Of the
    answer only the line breaks before it are taken off: indentation is data.

    `opened` says what the prompt ends in: True inside thoughts, False after closed ones, None
    unknown, and then a lone closing tag counts.

    >>> split_reasoning("<think>\\nls lists\\n</think>\\n\\n  a.txt")
    ('ls lists', '  a.txt')
    >>> split_reasoning("ls lists</think>a.txt </think>")
    ('ls lists', 'a.txt </think>')
    >>> split_reasoning("cat: </think>", opened=False)
    (None, 'cat: </think>')
    >>> split_reasoning("<think>never ends")
    ('never ends', '')
    """
    body = text.lstrip()
    if body.startswith(OPEN):
        thoughts, _, answer = body[len(OPEN) :].partition(CLOSE)
    elif opened is not False and CLOSE in text:
        thoughts, _, answer = text.partition(CLOSE)
    elif opened:
        thoughts, answer = text, ""
    else:
        return None, text
    return thoughts.strip() or None, answer.lstrip("\r\n")


def opened_by(prompt: str) -> bool | None:
    """Return whether a prompt ends inside thoughts (True), behind closed ones, or with neither.

    >>> opened_by("<|im_start|>assistant\\n<think>\\n")
    True
    """
    tail = prompt.rstrip()
    if tail.endswith(OPEN):
        return True
    return False if tail.endswith(CLOSE) else None


def asks_nothing(request: Request) -> bool:
    """Return whether the last message is empty, which a model would answer all the same."""
    return not request.messages or not request.messages[-1]["content"].strip()


def failed(
    request: Request,
    failure: str,
    detail: str,
    *,
    seconds: float = 0.0,
    n_prompt_tokens: int | None = None,
) -> Completion:
    """Return the completion of a request that got no answer."""
    return Completion(
        key=request.key,
        text=None,
        failure=failure,
        failure_detail=detail,
        n_prompt_tokens=n_prompt_tokens,
        seconds=seconds,
    )


def judged(
    request: Request,
    *,
    text: str,
    reasoning: str | None,
    finish_reason: str | None,
    n_prompt_tokens: int | None,
    n_completion_tokens: int | None,
    seconds: float,
) -> Completion:
    """Return the completion of a request that got this text; a cut or empty one has failed."""
    failure: str | None = None
    detail: str | None = None
    if finish_reason == "length":
        failure = "cut_answer"
        where = f"after {len(text)} characters of answer" if text.strip() else "before any answer"
        detail = f"max_tokens={request.sampling.max_tokens} ended it {where}"
    elif not text.strip():
        failure = "empty_answer"
        detail = "thoughts only" if reasoning else "nothing was said"
    return Completion(
        key=request.key,
        text=None if failure else text,
        reasoning=reasoning,
        finish_reason=finish_reason,
        failure=failure,
        failure_detail=detail,
        n_prompt_tokens=n_prompt_tokens,
        n_completion_tokens=n_completion_tokens,
        seconds=seconds,
    )


def one_line(error: BaseException) -> str:
    """Return an error as one short line, for `failure_detail`.

    >>> one_line(ValueError("first\\nsecond"))
    'ValueError: first'
    """
    first = str(error).strip().partition("\n")[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return text if len(text) <= 300 else text[:300] + "…"

"""Tell a page that is a CAPTCHA or an error page from one that only mentions them.

A page is what its title says, or what a short body says of itself: an article on error 404, a
sign-up form with a CAPTCHA among its fields, a search result that quotes "403 Forbidden" are
pages like any other.
"""

from __future__ import annotations

import re

SIGNS = (
    "captcha",
    "robot",
    "human",
    "forbidden",
    "not found",
    "bad gateway",
    "unavailable",
    "timeout",
    "time-out",
    "unusual traffic",
    "denied",
    "unauthorized",
    "just a moment",
    "attention required",
    "pardon our interruption",
    "your browser",
    "your connection",
    "err_",
    "be reached",
    "http error",
    "internal server error",
    "too many requests",
    "isn't working",
    "isn’t working",
    "problem loading",
    "security check",
    "blocked",
    "client error",
    "server error",
    "error 4",
    "error 5",
)
"""One of these, in any case, is in every text that `blocked_page` knows: a quick first look."""
MAX_PAGE_CHARS = 6_000
"""Longer pages have content of their own."""
_MAX_BODY_CHARS = 2_500
_MAX_REPLY_CHARS = 700

_PHRASE = (
    r"(?:bad request|unauthori[sz]ed|forbidden|(?:page |file |server )?not found|method not allowed"
    r"|request time-?out|too many requests|unavailable for legal reasons|internal server error"
    r"|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|access denied)"
)
_CODE = r"(?:40[0-9]|41[0-8]|42[0-9]|451|50[0-9]|52[0-7]|530)"
_TITLE = re.compile(
    r"^(?:Page )?Title: *(?P<a>[^\n]+)|^Tab \d+ \(current\): *(?P<b>(?!https?:)[^\n]+)"
    r"|RootWebArea ?'(?P<c>[^'\n]*)'|<title[^>]*>\s*(?P<d>[^<]*)|^# (?P<e>[^\n]+)",
    re.MULTILINE | re.IGNORECASE,
)
_SITE = r"\s*!*[0-9]?\s*(?:$|[|–—·:•-]\s*[^|–—·•]{0,60}$)"
_LISTED = re.compile(r"^\W*Title: ", re.MULTILINE | re.IGNORECASE)
"""More than one of these is a list of search results."""
_ERROR_TITLE = re.compile(
    rf"(?:http\s+)?(?:error\s+)?{_CODE}\b[\s:|–—().-]*(?:{_PHRASE}\)?|error){_SITE}"
    rf"|(?:error\s+)?{_PHRASE}{_SITE}"
    r"|(?:problem loading page|this (?:site|page) (?:can[’']t be reached|isn[’']t working))",
    re.IGNORECASE,
)
_CODE_TITLE = re.compile(rf"(?:error\s+)?{_CODE}{_SITE}", re.IGNORECASE)
"""No more than a code and a site: an error if the page says little else."""
_CAPTCHA_TITLE = re.compile(
    r"(?:just a moment\b|attention required! \| cloudflare|robot check|bot (?:check|verification)"
    r"|are you a (?:robot|human)|are you human|(?:human|security) (?:check|verification)\b"
    r"|verify(?:ing)? (?:that )?you are (?:a )?human|pardon our interruption|captcha\b"
    r"|access to this page has been denied|you have been blocked|ddos-guard)",
    re.IGNORECASE,
)
_CAPTCHA_BODY = re.compile(
    r"\b(?:solve|complete|enter|fill (?:in|out)|type|pass)\b[^\n]{0,40}\bcaptcha\b"
    r"|\b(?:unusual|suspicious) traffic from your (?:computer|network|device)"
    r"|\bverify(?:ing)? (?:that )?you(?: are|['’]re) (?:a )?(?:human|not a (?:ro)?bot)"
    r"|\bare you a (?:human|robot)\?|\bpress (?:&|and) hold\b[^\n]{0,60}\b(?:human|robot)"
    r"|enter the characters you see|checking your browser before accessing"
    r"|needs to review the security of your connection|enable javascript and cookies to continue"
    r"|confirm (?:that )?you(?: are|['’]re) (?:a )?(?:human|not a (?:ro)?bot)",
    re.IGNORECASE,
)
_BROWSER_ERROR = re.compile(
    r"\bERR_(?:NAME_NOT_RESOLVED|CONNECTION_\w+|TIMED_OUT|TUNNEL_\w+|INTERNET_\w+|ADDRESS_\w+"
    r"|EMPTY_RESPONSE|SSL_\w+|CERT_\w+|HTTP_RESPONSE_CODE_FAILURE)|chrome-error://chromewebdata"
    rf"|\bHTTP ERROR {_CODE}\b"
)
_ERROR_LINE = re.compile(
    r"^\W*(?:(?:heading|StaticText|url)\W+)*(?:"
    r"(?:(?:error|failed|http|https|status|code|response|request|client|server|fetch|visit)"
    rf"[:\s='\"(/\[]+)+{_CODE}\b[\s:–—().'-]*(?:{_PHRASE}'?(?: for url[^\n]*)?)?"
    rf"|{_CODE}\b[\s:–—().'-]*{_PHRASE})\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_PHRASE_ALONE = re.compile(rf"\W*(?:error\W+)?{_PHRASE}\W*", re.IGNORECASE)
_FACTS = {"400", "404", "405", "410"}


def blocked_page(text: str) -> str | None:
    """Return `captcha`, `http_error` or `not_found` if a page or reply is one, else null.

    `not_found` is an error that says something of the address, and would come on any day; the
    others say something of the visitor or of the hour.

    >>> blocked_page("Title: Just a moment...\\n\\nRootWebArea 'Just a moment...'")
    'captcha'
    >>> blocked_page("Error: HTTP 404 Not Found")
    'not_found'
    >>> blocked_page("Title: HTTP 404 - An encyclopedia\\n\\n404 Not Found is a status code.")
    """
    if len(text) > MAX_PAGE_CHARS:
        return None
    titles = [] if len(_LISTED.findall(text)) > 1 else list(_TITLE.finditer(text[:1_000]))
    for title in (match[match.lastgroup or 0].strip() for match in titles):
        if _CAPTCHA_TITLE.match(title):
            return "captcha"
        if _ERROR_TITLE.match(title) or (len(text) <= _MAX_BODY_CHARS and _CODE_TITLE.match(title)):
            return _error(title)
    if len(text) <= _MAX_BODY_CHARS:
        if _CAPTCHA_BODY.search(text) and not _is_form(text):
            return "captcha"
        if _BROWSER_ERROR.search(text):
            return "http_error"
    if len(text) <= _MAX_REPLY_CHARS:
        line = _ERROR_LINE.search(text)
        if line is not None:
            return _error(line[0])
        if _PHRASE_ALONE.fullmatch(text):
            return _error(text)
    return None


def _error(text: str) -> str:
    code = re.search(_CODE, text)
    missing = code[0] in _FACTS if code else "not found" in text.lower()
    return "not_found" if missing else "http_error"


def _is_form(text: str) -> bool:
    """Return whether there is more to fill in than a CAPTCHA's own field."""
    return len(re.findall(r"textbox|<input|<textarea|EditText|combobox|<select", text)) > 2

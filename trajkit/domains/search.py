"""Search: queries and page visits, answered by result lists and page text."""

from __future__ import annotations

import re
from functools import lru_cache

from trajkit.domains.base import Domain, acting_share
from trajkit.fidelity.search import check
from trajkit.model import Step, Trajectory

ACTION_SPACE = """\
The action is one tool call: a JSON object with `name` and `arguments`. Usual tools:
- `web_search` (`queries`: list of strings, or `query`): a numbered list of results for each query.
- `web_extractor` or `visit` (`urls` or `url`, and often a `goal`): the text of the pages.
- a memory tool (`store`, `retrieve`, `delete` with a key): notes of the agent."""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```json
{"name": "web_search", "arguments": {"queries": ["bridge over the Sull completed year"]}}
```

**Environment Observation:**
[1] https://towns.example/sull/bridge
Title: The Sull bridge - Town chronicle
Snippet: The stone bridge over the Sull was opened to carts in the autumn of 1804...
Date: 2019-03-02

[2] https://rivers.example/sull
Title: Sull (river)
Snippet: The Sull is crossed by one road bridge and two ferries...
Date: 2021-11-17

### Turn 2

**Action:**
```json
{"name": "web_extractor", "arguments": {"urls": ["https://towns.example/gone"], "goal": "year"}}
```

**Environment Observation:**
Page: https://towns.example/gone
Error: 404 Not Found"""

_NAME_LIST = (
    "search web_search websearch google_search google_web_search bing_search internet_search "
    "duckduckgo_search duckduckgo_results tavily_search brave_web_search serper_search exa_search "
    "web_search_exa wikipedia_search search_wikipedia search_web wiki_search scholar "
    "google_scholar search_engine search_pages retrieve lookup_page "
    "visit visit_page visit_webpage visit_tool web_extractor web_extract extract_page web_fetch "
    "webfetch fetch_url fetch_page fetch_webpage read_url read_page open_page open_url browse "
    "browse_page crawl crawl_page scrape web_visit get_page page_extractor link_reader "
    "dict_memory memory"
)
_NAMES = frozenset(_NAME_LIST.split())
_LAST_PART = re.compile(r"(?:.*(?:__|[./:]))?(.+?)(?:_tool)?\Z", re.DOTALL)
_MEMORY = frozenset({"dict_memory", "memory"})


def tool_name(step: Step) -> str:
    """Return the lower-cased tool name without the name of its server."""
    return _plain_name(step.action_name or "")


@lru_cache(maxsize=4096)
def _plain_name(name: str) -> str:
    match = _LAST_PART.match(name.strip().lower())
    if match is None:
        return ""
    # `server-web_search`: cut at a hyphen only before a name of several words, since a last word
    # alone (`post-search`) says too little.
    tail = match.group(1).rpartition("-")[2]
    return tail if "_" in tail else match.group(1).replace("-", "_")


def searches(step: Step) -> bool:
    """Return whether a step calls a search engine, a page reader or the notebook beside them."""
    return step.action_kind == "tool_call" and tool_name(step) in _NAMES


def claims(trajectory: Trajectory) -> bool:
    """Return whether most acting steps search or read pages, and not only keep notes."""
    looks = any(searches(step) and tool_name(step) not in _MEMORY for step in trajectory.steps)
    return looks and acting_share(trajectory, searches) > 0.5


DOMAIN = Domain(
    name="search",
    title="Web search",
    claims=claims,
    fence="json",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    check=check,
)

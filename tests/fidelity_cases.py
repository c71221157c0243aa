"""Cases for the tests of the fidelity gate: one recording of every kind, with its history."""

from __future__ import annotations

from dataclasses import replace

from trajkit.fidelity.findings import Case, Turn, Verdict
from trajkit.fidelity.gate import judge

SHELL_START = "ann@box:~$ mkdir job\nann@box:~$ cd job\nann@box:~/job$"
PAGE = """URL: http://shop.example/
Title: Shop

RootWebArea 'Shop', focused
\t[3] banner ''
\t\t[4] link 'Home'
\t\t[5] searchbox 'Find'
\t\t[6] button 'Go'
\t[7] main ''
\t\t[8] heading 'Goods'
\t\t[9] link 'Oak stool'
\t\t[10] link 'Pine shelf'
\t\t[11] checkbox 'In stock', checked='false'"""
FILLED = PAGE.replace("[5] searchbox 'Find'", "[5] searchbox 'Find', value='lamp', focused")
CHECKED = PAGE.replace("checked='false'", "checked='true', focused")
PRODUCT = """URL: http://shop.example/goods/oak-stool
Title: Oak stool - Shop

RootWebArea 'Oak stool - Shop', focused
\t[3] banner ''
\t\t[4] link 'Home'
\t\t[5] searchbox 'Find'
\t\t[6] button 'Go'
\t[7] main ''
\t\t[12] heading 'Oak stool'
\t\t[13] paragraph ''
\t\t\tStaticText 'Turned legs, waxed seat.'
\t\t[14] button 'Add to cart'"""
DESK = """tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)
frame\tNotes\t\t\t\t(0, 27)\t(1280, 693)
entry\tTitle\t\t\t\t(180, 126)\t(420, 30)
push-button\tSave\t\t\t\t(620, 126)\t(80, 30)
push-button\tClose\t\t\t\t(720, 126)\t(80, 30)"""
TYPED = DESK.replace("entry\tTitle\t\t", "entry\tTitle\tweek plan\t")
PHONE = """[0] TextView text="8:37" bounds=(145,1,229,136)
[1] TextView text="Alarms" bounds=(60,180,420,260)
[2] Switch text="06:30" checked clickable bounds=(60,320,1020,500)
[3] Switch text="09:00" clickable bounds=(60,520,1020,700)
[4] ImageButton description="Add alarm" clickable bounds=(470,2040,610,2180)"""
SWITCHED = PHONE.replace('"06:30" checked', '"06:30"')
RESULTS = """[1] https://towns.example/sull/bridge
Title: The Sull bridge - Town chronicle
Snippet: The stone bridge over the Sull was opened to carts in the autumn of 1804...
Date: 2019-03-02

[2] https://rivers.example/sull
Title: Sull (river)
Snippet: The Sull is crossed by one road bridge and two ferries...
Date: 2021-11-17"""


def make_case(
    domain: str,
    action: str,
    recorded: str,
    *,
    kind: str = "tool_call",
    name: str | None = None,
    before: str | None = None,
    initial_state: str | None = None,
    exit_code: int | None = None,
) -> Case:
    """Return a case whose prediction is the recording itself."""
    earlier = Turn(
        action='{"name": "start", "arguments": {}}', action_kind=kind, observation=before
    )
    return Case(
        domain=domain,
        action=Turn(action=action, action_kind=kind, action_name=name),
        history=() if before is None else (earlier,),
        initial_state=initial_state,
        recorded=recorded,
        prediction=recorded,
        exit_code=exit_code,
    )


def tool(domain: str, name: str, arguments: str, recorded: str, **more: str | None) -> Case:
    """Return the case of a tool call."""
    action = f'{{"name": "{name}", "arguments": {arguments}}}'
    return make_case(domain, action, recorded, name=name, **more)  # type: ignore[arg-type]


def typed(keys: str, recorded: str, before: str | None = SHELL_START) -> Case:
    """Return the case of a batch of keystrokes."""
    action = f'[{{"keystrokes":"{keys}\\n","duration":0.5}}]'
    return make_case("terminal", action, recorded, kind="keystrokes", before=before)


CASES: dict[str, Case] = {
    "terminal silent": typed("touch a.txt", "ann@box:~/job$ touch a.txt\nann@box:~/job$"),
    "terminal output": typed(
        "ls -l", "ann@box:~/job$ ls -l\ntotal 4\n-rw-r--r-- 1 ann ann 12 Jan  5 10:01 a.txt\n"
        "-rw-r--r-- 1 ann ann 80 Jan  5 10:02 notes.md\nann@box:~/job$"
    ),
    "terminal error": typed(
        "cat lost", "ann@box:~/job$ cat lost\ncat: lost: No such file or directory\nann@box:~/job$"
    ),
    "terminal echo": typed("echo salt", "ann@box:~/job$ echo salt\nsalt\nann@box:~/job$"),
    "terminal running": typed("sleep 60", "ann@box:~/job$ sleep 60"),
    "mcp object": tool(
        "mcp", "get_ticket", '{"id": 412}',
        '{"id": 412, "title": "Lamp flickers", "state": "open", "created": "2026-01-05T10:00:00Z"}',
        before='{"created": 412, "title": "Lamp flickers"}',
    ),
    "mcp error": tool("mcp", "get_ticket", '{"id": 9}', '{"error": {"code": "not_found"}}'),
    "mcp text": tool("mcp", "close", '{"number": 31}', "Ticket 31 closed."),
    "mcp weather": tool("mcp", "weather", '{"city": "Ommer"}', '{"city":"Ommer","temp_c":20.0}'),
    "search list": tool("search", "web_search", '{"queries": ["Sull bridge opened"]}', RESULTS),
    "search page": tool(
        "search", "web_extractor", '{"urls": ["https://rivers.example/sull"]}',
        "Page: https://rivers.example/sull\n\n# Sull\n\nThe Sull is crossed by one road bridge.",
        before=RESULTS,
    ),
    "search lost page": tool(
        "search", "visit", '{"url": "https://towns.example/x"}',
        "Page: https://towns.example/x\nError: 404 Not Found",
    ),
    "swe listing": tool(
        "swe", "read_file", '{"path": "area.py"}',
        "     1\tdef area(width, height):\n     2\t    return width * height\n     3\t\n"
        "     4\tprint(area(2, 5))",
    ),
    "swe tests": tool(
        "swe", "bash", '{"command": "pytest -q"}',
        "<returncode>1</returncode>\n<output>\n.F\nFAILED test_area.py::test_wide\n"
        "1 failed, 1 passed in 0.03s\n</output>",
    ),
    "swe silent": tool(
        "swe", "bash", '{"command": "rm a.py"}', "<returncode>0</returncode>\n<output>\n</output>"
    ),
    "web fill": make_case("web", "fill('5', 'lamp')", FILLED, kind="gui", initial_state=PAGE),
    "web check": make_case("web", "click('11')", CHECKED, kind="gui", initial_state=PAGE),
    "web page": make_case("web", "click('9')", PRODUCT, kind="gui", initial_state=PAGE),
    "web wait": make_case("web", "noop()", PAGE, kind="gui", initial_state=PAGE),
    "os type": make_case(
        "os", 'pyautogui.click(200, 130)\npyautogui.write("week plan")', TYPED,
        kind="code", initial_state=DESK,
    ),
    "android switch": make_case(
        "android", '{"action_type":"click","x":540,"y":410}', SWITCHED,
        kind="gui", initial_state=PHONE,
    ),
}  # fmt: skip


def verdict_on(name: str, prediction: str) -> Verdict:
    """Return the verdict on another prediction for a named case."""
    return judge(replace(CASES[name], prediction=prediction))


def changed(name: str, old: str, new: str) -> str:
    """Return a recording with one piece of it replaced."""
    assert old in CASES[name].recorded
    return CASES[name].recorded.replace(old, new)

"""Record web episodes: a real headless Chromium on a local shop, scripted policies.

Writes one JSON file per episode, in the shape of a cleaned AgentLab or AgentRewardBench run:
the state of a step is what stood there before its action, so the answer to the action of step
N is the state of step N + 1, and the last step has no action.

The observation is Chromium's accessibility tree, flattened line by line as BrowserGym does.
As there, every element of a document is numbered in document order and keeps its number while
the document lives; elements that a script adds get the next numbers, a new document starts at
zero. Needs Debian's ``chromium`` and PyPI's ``playwright`` (without its own browsers).

    python examples/record/web.py OUT_DIR
"""

from __future__ import annotations

import argparse
import ast
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, CDPSession, Locator, Page, sync_playwright
from web_site import Shop, serve

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
SILENT_ROLES = {"none", "InlineTextBox", "LineBreak", "ListMarker"}
SILENT_PROPERTIES = {
    "focusable", "readonly", "level", "settable", "multiline", "busy", "live", "relevant",
    "atomic", "root", "describedby", "labelledby", "errormessage", "controls", "editable", "url",
}  # fmt: skip
FLAGS = {"focused", "required"}
ACTION_TIMEOUT_MS = 1000
NUMBER_ELEMENTS = """() => {
  const root = document.documentElement;
  let next = Number(root.getAttribute('data-next') || 0);
  for (const element of document.querySelectorAll('*'))
    if (!element.hasAttribute('bid')) element.setAttribute('bid', next++);
  root.setAttribute('data-next', next);
}"""


def flatten(nodes: list[dict[str, Any]], bids: dict[int, str]) -> str:
    """Return an accessibility tree as tab-indented ``[bid] role 'name', property`` lines."""
    by_id = {node["nodeId"]: node for node in nodes}
    lines: list[str] = []

    def visit(node: dict[str, Any], depth: int, parent_name: str) -> None:
        role = node["role"]["value"]
        name = str(node.get("name", {}).get("value", ""))
        marks = []
        if node.get("value", {}).get("value") not in (None, ""):
            marks.append(f"value={node['value']['value']!r}")
        for entry in node.get("properties", []):
            key, value = entry["name"], entry["value"].get("value")
            if key in FLAGS:
                marks += [key] if value else []
            elif key not in SILENT_PROPERTIES and not (key == "invalid" and value == "false"):
                marks.append(f"{key}={value!r}")
        # A text that only repeats the name of the element around it would be said twice.
        silent = node["ignored"] or role in SILENT_ROLES
        silent = silent or (role == "generic" and not name and not marks)
        silent = silent or (role == "StaticText" and name.strip() in parent_name)
        if not silent:
            bid = bids.get(node.get("backendDOMNodeId", -1))
            shown = f"[{bid}] " if bid and role not in ("StaticText", "RootWebArea") else ""
            lines.append("\t" * depth + ", ".join([f"{shown}{role} {name!r}", *marks]))
            depth, parent_name = depth + 1, name
        for child in node.get("childIds", []):
            if child in by_id:
                visit(by_id[child], depth, parent_name)

    visit(nodes[0], 0, "")
    return "\n".join(lines)


def backend_bids(node: dict[str, Any], found: dict[int, str]) -> dict[int, str]:
    """Return the number of every element below a DOM node, by its backend id."""
    attributes = node.get("attributes", [])
    if "bid" in attributes[::2]:
        found[node["backendNodeId"]] = attributes[attributes.index("bid") + 1]
    for child in node.get("children", []):
        backend_bids(child, found)
    return found


class Recorder:
    """One browser page and the steps seen on it."""

    def __init__(self, context: BrowserContext, goal: str, start: str) -> None:
        self.context = context
        self.page: Page = context.pages[0]
        self.session: CDPSession = context.new_cdp_session(self.page)
        self.goal = goal
        self.error = ""
        self.message: str | None = None
        self.steps: list[dict[str, Any]] = []
        self.page.goto(start)
        self.state = self.look()

    def look(self) -> dict[str, Any]:
        """Return the present state, once two looks at it agree."""
        last = ""
        for _ in range(20):
            self.page.wait_for_load_state("load")
            self.page.wait_for_timeout(150)
            self.page.evaluate(NUMBER_ELEMENTS)
            root = self.session.send("DOM.getDocument", {"depth": -1})["root"]
            bids = backend_bids(root, {})
            nodes = self.session.send("Accessibility.getFullAXTree")["nodes"]
            tree = flatten(nodes, bids)
            if tree == last:
                break
            last = tree
        focused = [
            bids.get(node.get("backendDOMNodeId", -1))
            for node in nodes
            for entry in node.get("properties", [])
            if entry["name"] == "focused" and entry["value"]["value"]
            and node["role"]["value"] != "RootWebArea"
        ]  # fmt: skip
        pages = self.context.pages
        return {
            "step": len(self.steps),
            "url": self.page.url,
            "title": self.page.title(),
            "open_pages_urls": [page.url for page in pages],
            "active_page_index": pages.index(self.page),
            "axtree": last,
            "focused_element_bid": focused[0] if focused else None,
            "last_action_error": self.error,
        }

    def bid(self, role: str, name: str) -> str:
        """Return the number of the first element with this role and name in the present tree."""
        for line in self.state["axtree"].splitlines():
            head, _, rest = line.strip().partition("] ")
            if head.startswith("[") and rest.split(", ")[0] == f"{role} {name!r}":
                return str(head[1:])
        raise LookupError(f"no {role} {name!r} in:\n{self.state['axtree']}")

    def element(self, bid: str) -> Locator:
        """Return the element with this number."""
        found = self.page.locator(f'[bid="{bid}"]')
        if found.count() == 0:
            raise ValueError(f'Could not find element with bid "{bid}"')
        return found

    def execute(self, action: str) -> None:
        """Do one action, written as a call of BrowserGym's language, on the real page."""
        call = ast.parse(action, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        name, arguments = call.func.id, [ast.literal_eval(argument) for argument in call.args]
        if name == "goto":
            self.page.goto(arguments[0])
        elif name == "go_back":
            self.page.go_back()
        elif name == "scroll":
            self.page.mouse.wheel(*arguments)
        elif name == "noop":
            self.page.wait_for_timeout(1000)
        elif name == "send_msg_to_user":
            self.message = arguments[0]
        else:
            method = getattr(self.element(arguments[0]), name)
            method(*arguments[1:], timeout=ACTION_TIMEOUT_MS)

    def act(self, action: str, reasoning: str) -> None:
        """Do an action, keep the state before it, and look at the state after it."""
        self.steps.append({**self.state, "action": action, "reasoning": reasoning})
        self.error = ""
        try:
            self.execute(action)
        except Exception as error:  # what the page refuses is an observation of the episode
            self.error = f"{type(error).__name__}: {error}"
        self.state = self.look()

    def click(self, role: str, name: str, reasoning: str) -> None:
        self.act(f"click({self.bid(role, name)!r})", reasoning)

    def fill(self, role: str, name: str, text: str, reasoning: str) -> None:
        self.act(f"fill({self.bid(role, name)!r}, {text!r})", reasoning)

    def select(self, name: str, option: str, reasoning: str) -> None:
        self.act(f"select_option({self.bid('combobox', name)!r}, {option!r})", reasoning)

    def say(self, message: str, reasoning: str) -> None:
        self.act(f"send_msg_to_user({message!r})", reasoning)

    def episode(self, succeeded: bool) -> dict[str, Any]:
        """Return the whole episode; an agent that sent no message was cut off."""
        return {
            "benchmark": "local_shop",
            "goal": self.goal,
            "agent": "scripted",
            "model": None,
            "cum_reward": 1.0 if succeeded else 0.0,
            "terminated": self.message is not None,
            "truncated": self.message is None,
            "steps": [*self.steps, {**self.state, "action": None, "reasoning": None}],
        }


def buy_tray(run: Recorder, wood: str, finish: str) -> None:
    run.fill("searchbox", "Search the shop", "desk tray", "The search will find the trays.")
    run.click("button", "Search", "Send the search.")
    run.click("link", f"{wood} desk tray", f"The {wood.lower()} one is the tray asked for.")
    run.select("Finish", finish, f"The finish has to be {finish.lower()}.")
    run.fill("spinbutton", "Quantity", "2", "Two trays are wanted.")
    run.click("button", "Add to cart", "The choice is complete.")
    run.click("link", "Go to checkout", "The cart holds two trays, go on to pay.")
    run.fill("textbox", "Full name", "Ines Halvorsen", "The name comes from the task.")
    run.fill("textbox", "Street", "Quarry Lane 8", "The street comes from the task.")
    run.fill("textbox", "Postcode", "4471", "Type the postcode.")
    run.click("button", "Place order", "All fields are filled.")
    run.fill("textbox", "Postcode", "44718", "A digit was lost, the task says 44718.")
    run.click("button", "Place order", "The postcode has five digits now.")
    number = run.state["title"].split()[1]
    run.say(f"The order is placed, its number is {number}.", "The page confirms the order.")


def order_status(run: Recorder) -> None:
    run.click("link", "Sign in", "Orders stand in the account.")
    run.fill("textbox", "E-mail address", "ines.halvorsen@post.example", "The address given.")
    run.fill("textbox", "Password", "paper-lantern-14", "The password given.")
    run.act(f"press({run.bid('textbox', 'Password')!r}, 'Enter')", "Enter sends the form.")
    run.fill("textbox", "Password", "paper-lantern-41", "Two digits were swapped.")
    run.act("click('412')", "The button below the password signs in.")
    run.click("button", "Sign in", "No element 412 here; the button has another number.")
    run.click("link", "Order TR-2040", "This is the order asked about.")
    run.say("Order TR-2040 is on its way, tracking number RX-77-0412.", "The page says so.")


def dearest_notebook(run: Recorder) -> None:
    run.click("link", "Paper", "Notebooks belong to paper.")
    run.select("Sort by", "Lowest price", "Sorted by price, the dearest one comes last.")
    run.act("scroll(0, 600)", "See what is further down.")
    run.click("button", "Load more", "Only the first articles are shown.")
    run.act("noop()", "Wait in case something is still loading.")
    run.say("The dearest notebook is the Atlas notebook at €28.90.", "It is the last of the list.")


def sold_out_quill(run: Recorder) -> None:
    run.act("goto('http://127.0.0.1:8377/product/goose-quill-pen')", "Try the likely address.")
    run.act("go_back()", "There is no such page, go back.")
    run.fill("searchbox", "Search the shop", "gose quill", "Search for it instead.")
    run.click("button", "Search", "Send the search.")
    run.fill("searchbox", "Search the shop", "feather pen", "Nothing; use other words.")
    run.click("button", "Search", "Send the search.")
    run.click("link", "Writing", "Look through the department.")
    run.click("link", "Goose quill", "Here it is.")
    run.click("button", "Add to cart", "Put it into the cart.")
    run.click("button", "Add to cart", "The click did not get through, try again.")
    run.say("I put the goose quill into your cart.", "The button was pressed.")


def yearly_newsletter(run: Recorder) -> None:
    run.click("link", "Questions", "See first how long a delivery takes.")
    question = "How long does delivery take?"
    run.click("DisclosureTriangle", question, "Open the answer.")
    run.click("link", "Newsletter", "Now the newsletter.")
    run.fill("textbox", "E-mail address", "ines.halvorsen@post.example", "The address given.")
    run.click("radio", "Once a year", "It should come once a year.")
    run.click("button", "Subscribe", "Send the form.")
    run.fill("textbox", "E-mail address", "ines.halvorsen@post.example", "The box was missing.")
    run.click("radio", "Once a year", "The form was reset.")
    run.click("checkbox", "I agree to get mail", "This box is needed.")
    run.click("button", "Subscribe", "Send the form again.")
    run.say("Orders take about four working days; you are subscribed.", "Both parts are done.")


def two_inks(run: Recorder) -> None:
    run.click("link", "Ink", "Inks have a department of their own.")
    run.click("link", "Lamp black ink", "The first of the two inks.")
    run.click("button", "Add to cart", "Add it.")
    run.act("go_back()", "Back to the article.")
    run.act("go_back()", "Back to the list.")
    run.click("link", "Walnut ink", "The second ink.")
    run.select("Finish", "60 ml", "The large bottle.")
    run.click("button", "Add to cart", "Add it.")
    run.click("button", "Remove Lamp black ink", "This one is the small bottle, take it out.")
    run.click("link", "Tallow and Reed", "Start over for the large one.")


Check = Callable[[Shop, str], bool]
TRAY_GOAL = (
    "Order two {0} desk trays with the {1} finish for Ines Halvorsen, Quarry Lane 8, 44718, "
    "and tell me the order number."
)


def bought(slug: str, finish: str) -> Check:
    return lambda shop, said: any(
        order.lines == [(slug, finish, 2)] and number in said
        for number, order in shop.orders.items()
    )


EPISODES: dict[str, tuple[str, Callable[[Recorder], None], Check]] = {
    "buy_walnut_tray": (
        TRAY_GOAL.format("walnut", "waxed"),
        lambda run: buy_tray(run, "Walnut", "Waxed"),
        bought("walnut-desk-tray", "Waxed"),
    ),
    "buy_maple_tray": (
        TRAY_GOAL.format("maple", "waxed"),
        lambda run: buy_tray(run, "Maple", "Waxed"),
        bought("maple-desk-tray", "Waxed"),
    ),
    "order_status": (
        "Where is my order TR-2040? I am ines.halvorsen@post.example, the password is "
        "paper-lantern-41.",
        order_status,
        lambda shop, said: "RX-77-0412" in said,
    ),
    "dearest_notebook": (
        "Which notebook is the dearest one in the shop, and what does it cost?",
        dearest_notebook,
        lambda shop, said: "Atlas" in said and "28.90" in said,
    ),
    "sold_out_quill": (
        "Put one goose quill into my cart.",
        sold_out_quill,
        lambda shop, said: ("goose-quill", "Plain") in shop.cart,
    ),
    "yearly_newsletter": (
        "Find out how long a delivery takes, then subscribe ines.halvorsen@post.example to the "
        "newsletter, once a year.",
        yearly_newsletter,
        lambda shop, said: ("ines.halvorsen@post.example", "yearly") in shop.subscribers,
    ),
    "two_inks": (
        "Put one large bottle (60 ml) each of lamp black ink and walnut ink into my cart.",
        two_inks,
        lambda shop, said: set(shop.cart) == {("lamp-black-ink", "60 ml"), ("walnut-ink", "60 ml")},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Record web episodes on a local shop.")
    parser.add_argument("out_dir", type=Path, help="folder for one JSON file per episode")
    parser.add_argument("--port", type=int, default=8377, help="port of the shop on 127.0.0.1")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser's program")
    options = parser.parse_args()
    options.out_dir.mkdir(parents=True, exist_ok=True)
    for name, (goal, policy, check) in EPISODES.items():
        shop = Shop()
        server = serve(shop, options.port)
        with tempfile.TemporaryDirectory() as profile, sync_playwright() as driver:
            context = driver.chromium.launch_persistent_context(
                profile, executable_path=options.chromium, headless=True, args=ARGUMENTS
            )
            run = Recorder(context, goal, f"http://127.0.0.1:{options.port}/")
            policy(run)
            context.close()
        server.shutdown()
        server.server_close()
        episode = run.episode(check(shop, run.message or ""))
        text = json.dumps(episode, ensure_ascii=False, indent=1)
        (options.out_dir / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: {len(run.steps)} actions, reward {episode['cum_reward']}")


if __name__ == "__main__":
    main()

"""A small stationery shop on the loopback address: the site that ``web.py`` drives.

Everything a page says comes from the state of one ``Shop``: the catalogue, the carts, the
accounts and the orders. A fresh ``Shop`` always behaves the same, so a recorded episode can
be made again. Products, people and addresses are invented.

    python examples/record/web_site.py --port 8377     look at the shop in your own browser
"""

from __future__ import annotations

import argparse
import html
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE_SIZE = 5
ACCOUNTS = {"ines.halvorsen@post.example": ("paper-lantern-41", "Ines Halvorsen")}


@dataclass(frozen=True)
class Product:
    """One article of the catalogue; the slug is its address."""

    slug: str
    name: str
    category: str
    cents: int
    about: str
    finishes: tuple[str, ...] = ("Plain",)
    in_stock: bool = True


WOODEN, SIZES, LEAVES = ("Oiled", "Waxed", "Raw"), ("30 ml", "60 ml"), ("Ruled", "Blank")
CATALOGUE = (
    Product("walnut-desk-tray", "Walnut desk tray", "Desk", 3450,
            "A tray of solid walnut for letters and loose pens.", WOODEN),
    Product("maple-desk-tray", "Maple desk tray", "Desk", 3150,
            "A tray of solid maple for letters and loose pens.", WOODEN),
    Product("cork-desk-tray", "Cork desk tray", "Desk", 1900,
            "A light tray of pressed cork, lined with felt.", ("Natural", "Black")),
    Product("reed-pen", "Reed pen", "Writing", 640, "A pen cut from marsh reed, broad nib."),
    Product("steel-nib-pen", "Steel nib pen", "Writing", 1275, "A holder with three steel nibs."),
    Product("goose-quill", "Goose quill", "Writing", 480, "A hand-cut quill.", in_stock=False),
    Product("iron-gall-ink", "Iron gall ink", "Ink", 990, "Blue when wet, black when dry.", SIZES),
    Product("lamp-black-ink", "Lamp black ink", "Ink", 870, "A matt carbon ink.", SIZES),
    Product("walnut-ink", "Walnut ink", "Ink", 820, "A warm brown ink from husks.", SIZES),
    Product("laid-paper", "Laid paper, 50 sheets", "Paper", 1450, "Cream paper with chain lines.",
            ("A5", "A4")),
    Product("blotting-paper", "Blotting paper, 20 sheets", "Paper", 560, "Thick and thirsty."),
    Product("pocket-notebook", "Pocket notebook", "Paper", 780, "Forty-eight sewn leaves.", LEAVES),
    Product("marbled-notebook", "Marbled notebook", "Paper", 1680, "Marbled by hand.", LEAVES),
    Product("linen-notebook", "Linen notebook", "Paper", 1520, "Covers of undyed linen.", LEAVES),
    Product("ledger-notebook", "Ledger notebook", "Paper", 2340, "Columns for careful accounts."),
    Product("travel-notebook", "Travel notebook", "Paper", 1190, "A strap and a pen loop.", LEAVES),
    Product("atlas-notebook", "Atlas notebook", "Paper", 2890, "Gridded leaves, lay-flat spine."),
)  # fmt: skip
BY_SLUG = {product.slug: product for product in CATALOGUE}
CATEGORIES = ("Desk", "Writing", "Ink", "Paper")
QUESTIONS = (
    ("How long does delivery take?", "Orders leave on the next working day; allow three more."),
    ("Can I return an opened ink?", "No. Sealed bottles come back within thirty days."),
    ("Do you wrap gifts?", "Yes, for 2.50 an order. Tick the box at the checkout."),
)


def money(cents: int) -> str:
    """Return an amount as the shop prints it."""
    return f"€{cents // 100}.{cents % 100:02d}"


@dataclass
class Order:
    """What was bought (slug, finish, count) and how far it has come."""

    lines: list[tuple[str, str, int]]
    state: str


@dataclass
class Shop:
    """The whole state behind the pages; one visitor's cart and login included."""

    cart: dict[tuple[str, str], int] = field(default_factory=dict)
    user: str | None = None
    subscribers: list[tuple[str, str]] = field(default_factory=list)
    orders: dict[str, Order] = field(
        default_factory=lambda: {
            "TR-2038": Order([("iron-gall-ink", "60 ml", 1)], "Delivered"),
            "TR-2040": Order(
                [("laid-paper", "A4", 2), ("reed-pen", "Plain", 1)],
                "On its way, tracking number RX-77-0412",
            ),
        }
    )

    def total(self) -> int:
        """Return the cart's worth in cents."""
        return sum(BY_SLUG[slug].cents * count for (slug, _), count in self.cart.items())

    def search(self, words: str, category: str, order: str) -> list[Product]:
        """Return the articles that hold every word, in the wanted order."""
        wanted = words.lower().split()
        found = [
            product
            for product in CATALOGUE
            if all(word in f"{product.name} {product.about}".lower() for word in wanted)
            and category in ("", product.category)
        ]
        if order == "price":
            found.sort(key=lambda product: product.cents)
        return found


def layout(shop: Shop, title: str, body: str) -> str:
    """Return a full page around a body."""
    links = "".join(f'<li><a href="/search?category={c}">{c}</a></li>' for c in CATEGORIES)
    who = '<a href="/account">My account</a>' if shop.user else '<a href="/login">Sign in</a>'
    count = sum(shop.cart.values())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}'
        ' - Tallow and Reed</title><link rel="icon" href="data:,"></head><body><header>'
        '<a href="/">Tallow and Reed</a><form action="/search" role="search">'
        '<input type="search" name="q" aria-label="Search the shop">'
        f"<button>Search</button></form>{who} "
        f'<a href="/cart">Cart ({count})</a></header><nav aria-label="Departments"><ul>{links}'
        f'</ul></nav><main>{body}</main><footer><a href="/questions">Questions</a> '
        '<a href="/newsletter">Newsletter</a></footer></body></html>'
    )


def tile(product: Product) -> str:
    """Return one line of a result list."""
    note = "" if product.in_stock else " (sold out)"
    return (
        f'<li><a href="/product/{product.slug}">{product.name}</a> '
        f"<span>{money(product.cents)}{note}</span></li>"
    )


def options(names: tuple[str, ...]) -> str:
    """Return the options of a select box."""
    return "".join(f"<option>{name}</option>" for name in names)


def field_html(name: str, label: str, value: str = "", error: str = "", kind: str = "text") -> str:
    """Return a labelled, required text field, with its complaint below it when there is one."""
    wrong = f' aria-invalid="true" aria-describedby="{name}-error"' if error else ""
    complaint = f'<p id="{name}-error" role="alert">{error}</p>' if error else ""
    return (
        f'<p><label for="{name}">{label}</label> <input id="{name}" name="{name}" type="{kind}" '
        f'required value="{html.escape(value)}"{wrong}></p>{complaint}'
    )


# A page takes the shop and the fields sent to it, and gives a status and a body; where the
# status is 303, the body is the address to go to.
Answer = tuple[int, str]
Form = dict[str, str]


def home(shop: Shop, form: Form) -> Answer:
    tiles = "".join(tile(product) for product in CATALOGUE[:3])
    return 200, layout(shop, "Home", f"<h1>Paper, pens and ink</h1><ul>{tiles}</ul>")


def search(shop: Shop, form: Form) -> Answer:
    words, category, order = (form.get(key, "") for key in ("q", "category", "order"))
    found = shop.search(words, category, order)
    title = f"Results for “{words}”" if words else category or "All articles"
    if not found:
        text = f"<h1>{html.escape(title)}</h1><p role='status'>Nothing matches your search.</p>"
        return 200, layout(shop, title, text)
    more = ""
    if len(found) > PAGE_SIZE:
        more = (
            '<button id="more">Load more</button><script>let at=0;const b=document.getElementById('
            "'more');b.onclick=async()=>{at+=" + str(PAGE_SIZE) + ";const u=new URL("
            "'/more'+location.search,location);u.searchParams.set('at',at);"
            "const r=await(await fetch(u)).json();document.getElementById('results')."
            "insertAdjacentHTML('beforeend',r.html);document.getElementById('shown').textContent="
            "r.shown;if(r.last)b.remove()}</script>"
        )
    shown = f"Showing {min(len(found), PAGE_SIZE)} of {len(found)}"
    tiles = "".join(tile(product) for product in found[:PAGE_SIZE])
    picked = " selected" if order == "price" else ""
    sort = (
        f'<form><input type="hidden" name="q" value="{html.escape(words)}"><input type="hidden" '
        f'name="category" value="{html.escape(category)}"><label>Sort by <select name="order" '
        f'onchange="this.form.submit()"><option value="">Catalogue order</option>'
        f'<option value="price"{picked}>Lowest price</option></select></label></form>'
    )
    body = f"<h1>{html.escape(title)}</h1>{sort}<p id='shown' role='status'>{shown}</p>"
    return 200, layout(shop, title, f'{body}<ul id="results">{tiles}</ul>{more}')


def more(shop: Shop, form: Form) -> Answer:
    found = shop.search(form.get("q", ""), form.get("category", ""), form.get("order", ""))
    start = int(form.get("at", "0"))
    stop = min(start + PAGE_SIZE, len(found))
    answer = {
        "html": "".join(tile(product) for product in found[start:stop]),
        "shown": f"Showing {stop} of {len(found)}",
        "last": stop == len(found),
    }
    return 200, json.dumps(answer)


def product_page(shop: Shop, form: Form) -> Answer:
    product = BY_SLUG.get(form["key"])
    if product is None:
        return missing(shop, form)
    stock = "In stock" if product.in_stock else "Sold out"
    closed = "" if product.in_stock else " disabled"
    body = (
        f"<h1>{product.name}</h1><p>{product.about}</p><p>{money(product.cents)}</p><p>{stock}</p>"
        f'<form method="post" action="/cart/add"><input type="hidden" name="slug" '
        f'value="{product.slug}"><label>Finish <select name="finish">{options(product.finishes)}'
        '</select></label> <label>Quantity <input type="number" name="count" value="1" min="1" '
        f'max="9"></label> <button{closed}>Add to cart</button></form><h2>Reviews</h2>'
        "<p>“Holds up well. <i>Would buy again.</i>” Tove R.</p>"
        "<p>“The &lt;b&gt;box&lt;/b&gt; it came in was dented.” Anonymous</p>"
    )
    return 200, layout(shop, product.name, body)


def add(shop: Shop, form: Form) -> Answer:
    key = (form["slug"], form["finish"])
    shop.cart[key] = shop.cart.get(key, 0) + int(form["count"])
    return 303, "/cart"


def remove(shop: Shop, form: Form) -> Answer:
    shop.cart.pop((form["slug"], form["finish"]), None)
    return 303, "/cart"


def cart(shop: Shop, form: Form) -> Answer:
    if not shop.cart:
        return 200, layout(shop, "Cart", "<h1>Cart</h1><p>Your cart is empty.</p>")
    rows = ""
    for (slug, finish), count in shop.cart.items():
        name, cents = BY_SLUG[slug].name, BY_SLUG[slug].cents
        rows += (
            f"<tr><td>{name}</td><td>{finish}</td><td>{count}</td><td>{money(cents * count)}</td>"
            f'<td><form method="post" action="/cart/remove"><input type="hidden" name="slug" '
            f'value="{slug}"><input type="hidden" name="finish" value="{finish}">'
            f'<button aria-label="Remove {name}">Remove</button></form></td></tr>'
        )
    head = "".join(f"<th>{name}</th>" for name in ("Article", "Finish", "Quantity", "Price", ""))
    body = (
        f"<h1>Cart</h1><table><tr>{head}</tr>{rows}</table><p>Total {money(shop.total())}</p>"
        '<a href="/checkout">Go to checkout</a>'
    )
    return 200, layout(shop, "Cart", body)


def checkout(shop: Shop, form: Form) -> Answer:
    sent = "postcode" in form
    errors = {}
    if sent and not form.get("name"):
        errors["name"] = "Please tell us who the parcel is for."
    if sent and not re.fullmatch(r"\d{5}", form["postcode"]):
        errors["postcode"] = "A postcode has five digits."
    if sent and not errors:
        number = f"TR-{2039 + len(shop.orders)}"
        lines = [(slug, finish, count) for (slug, finish), count in shop.cart.items()]
        shop.orders[number] = Order(lines, "Received")
        shop.cart.clear()
        return 303, f"/order/{number}"
    ticked = " checked" if "gift" in form else ""
    body = (
        f"<h1>Checkout</h1><p>Total {money(shop.total())}</p>"
        '<form method="post" action="/checkout" novalidate>'
        + field_html("name", "Full name", form.get("name", ""), errors.get("name", ""))
        + field_html("street", "Street", form.get("street", ""))
        + field_html("postcode", "Postcode", form.get("postcode", ""), errors.get("postcode", ""))
        + f'<p><label><input type="checkbox" name="gift"{ticked}> Gift wrapping</label></p>'
        "<button>Place order</button></form>"
    )
    return 200, layout(shop, "Checkout", body)


def order(shop: Shop, form: Form) -> Answer:
    found = shop.orders.get(form["key"])
    if found is None or (form["key"] < "TR-2041" and not shop.user):
        return missing(shop, form)
    lines = "".join(
        f"<li>{count} x {BY_SLUG[slug].name}, {finish}</li>" for slug, finish, count in found.lines
    )
    body = f"<h1>Order {form['key']}</h1><p>{found.state}</p><ul>{lines}</ul>"
    return 200, layout(shop, f"Order {form['key']}", body)


def login(shop: Shop, form: Form) -> Answer:
    error = ""
    if "password" in form:
        if ACCOUNTS.get(form["email"], ("",))[0] == form["password"]:
            shop.user = form["email"]
            return 303, "/account"
        error = "<p role='alert'>E-mail address and password do not belong together.</p>"
    body = (
        f"<h1>Sign in</h1>{error}<form method='post' action='/login'>"
        + field_html("email", "E-mail address", form.get("email", ""), kind="email")
        + field_html("password", "Password", kind="password")
        + "<button>Sign in</button></form>"
    )
    return 200, layout(shop, "Sign in", body)


def account(shop: Shop, form: Form) -> Answer:
    if not shop.user:
        return 303, "/login"
    lines = "".join(f'<li><a href="/order/{n}">Order {n}</a></li>' for n in sorted(shop.orders))
    body = f"<h1>Welcome, {ACCOUNTS[shop.user][1]}</h1><h2>Your orders</h2><ul>{lines}</ul>"
    return 200, layout(shop, "My account", body)


def questions(shop: Shop, form: Form) -> Answer:
    blocks = "".join(f"<details><summary>{q}</summary><p>{a}</p></details>" for q, a in QUESTIONS)
    return 200, layout(shop, "Questions", f"<h1>Questions</h1>{blocks}")


def newsletter(shop: Shop, form: Form) -> Answer:
    if "email" in form and "agree" in form:
        shop.subscribers.append((form["email"], form["pace"]))
        text = f"<p role='status'>{html.escape(form['email'])} is on the list.</p>"
        return 200, layout(shop, "Newsletter", f"<h1>Newsletter</h1>{text}")
    error = "<p role='alert'>Tick the box to agree.</p>" if "email" in form else ""
    body = (
        f"<h1>Newsletter</h1>{error}<form method='post' action='/newsletter' novalidate>"
        + field_html("email", "E-mail address", form.get("email", ""), kind="email")
        + "<fieldset><legend>How often</legend>"
        '<label><input type="radio" name="pace" value="monthly" checked> Monthly</label>'
        '<label><input type="radio" name="pace" value="yearly"> Once a year</label></fieldset>'
        '<label><input type="checkbox" name="agree"> I agree to get mail</label>'
        "<button>Subscribe</button></form>"
    )
    return 200, layout(shop, "Newsletter", body)


def missing(shop: Shop, form: Form) -> Answer:
    body = "<h1>404 Not Found</h1><p>There is no page at this address.</p>"
    return 404, layout(shop, "404 Not Found", body)


ROUTES: dict[str, Callable[[Shop, Form], Answer]] = {
    "/": home, "/search": search, "/more": more, "/product": product_page, "/cart": cart,
    "/cart/add": add, "/cart/remove": remove, "/checkout": checkout, "/order": order,
    "/login": login, "/account": account, "/questions": questions, "/newsletter": newsletter,
}  # fmt: skip


def serve(shop: Shop, port: int) -> ThreadingHTTPServer:
    """Return a running server for a shop; the caller ends it with ``shutdown``."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Keep the terminal quiet."""

        def answer(self, text: str) -> None:
            path = urlsplit(self.path).path
            form = {k: v[-1] for k, v in parse_qs(text, keep_blank_values=True).items()}
            head, _, key = path.rpartition("/")
            if path not in ROUTES and head in ("/product", "/order"):
                path, form["key"] = head, key
            status, body = ROUTES.get(path, missing)(shop, form)
            self.send_response(status)
            if status == 303:
                self.send_header("Location", body)
                body = ""
            data = body.encode()
            kind = "application/json" if path == "/more" else "text/html; charset=utf-8"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the shop on 127.0.0.1 until interrupted.")
    parser.add_argument("--port", type=int, default=8377)
    server = serve(Shop(), parser.parse_args().port)
    print(f"http://127.0.0.1:{server.server_port}/")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.shutdown()


if __name__ == "__main__":
    main()

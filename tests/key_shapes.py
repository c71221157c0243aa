"""Made-up secrets in the shape of real ones, put together when a test runs.

No string in this file has the shape of a key: prefixes stand in pieces, bodies are drawn. So no
scanner ever stops at the repository itself.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from typing import NamedTuple

BOTH = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + "234567"
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
URL = BOTH + "-_"


class Planted(NamedTuple):
    """A secret and a text that holds it, as logs do."""

    secret: str
    """What must not be there any more."""
    text: str
    """The text."""


class Draw:
    """Draws bodies of keys."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))

    def of(self, alphabet: str, n_chars: int) -> str:
        """Return letters drawn by lot; of mixed alphabets one of each class at least."""
        while True:
            drawn = "".join(self.rng.choice(alphabet) for _ in range(n_chars))
            classes = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
            if n_chars < 8 or all(
                not set(one) & set(alphabet) or set(one) & set(drawn) for one in classes
            ):
                return drawn

    def place(self, secret: str) -> str:
        """Return a text that holds a key which its own shape must give away."""
        return self.rng.choice(
            (
                "export VALUE_7={0}\n",
                "$ curl -s https://api.service.io/v1/items?x={0}&y=1\nok",
                "the value {0} was rejected",
                'run("{0}")\n',
                "[12:04:11] got {0}, retrying",
                "{0}",
            )
        ).format(secret)


def _shaped(*pieces: str) -> Callable[[Draw], Planted]:
    """Return a maker of keys: `B40` is 40 letters of either case or digits, and so on."""
    alphabets = {"B": BOTH, "U": UPPER, "L": LOWER, "H": HEX, "W": URL, "D": string.digits}

    def make(draw: Draw) -> Planted:
        secret = "".join(
            draw.of(alphabets[piece[0]], int(piece[1:]))
            if piece[0] in alphabets and piece[1:].isdigit()
            else piece
            for piece in pieces
        )
        # A key that ends in a dash is cut by whoever reads it, people included.
        secret = secret[:-1] + "x" if secret[-1] in "-_" else secret
        return Planted(secret, draw.place(secret))

    return make


def _named(template: str, alphabet: str, n_chars: int) -> Callable[[Draw], Planted]:
    def make(draw: Draw) -> Planted:
        secret = draw.of(alphabet, n_chars)
        return Planted(secret, template.replace("@@", secret))

    return make


def _private_key(draw: Draw) -> Planted:
    lines = [draw.of(BOTH + "+/", 64) for _ in range(6)]
    kind = draw.rng.choice(("RSA ", "EC ", "OPENSSH ", ""))
    mark = "-" * 5
    block = "\n".join(
        [f"{mark}BEGIN {kind}PRIVATE " + f"KEY{mark}", *lines, f"{mark}END {kind}PRIVATE KEY{mark}"]
    )
    return Planted(lines[2], f"$ cat id\n{block}\n$ ")


def _token_of_three(draw: Draw) -> Planted:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": "HS256", "typ": "J" + "WT"})
    secret = f"{head}.{part({'sub': draw.of(LOWER, 9), 'iat': 1})}.{draw.of(URL, 43)}"
    return Planted(secret, f"got {secret} from the login page")


def _wrapped(draw: Draw) -> Planted:
    inner = f"user: app\npassword: {draw.of(BOTH, 14)}\n"
    secret = base64.b64encode(inner.encode()).decode()
    return Planted(secret.rstrip("="), f"data:\n  config: {secret}\n")


def _wrapped_key(draw: Draw) -> Planted:
    secret = base64.b64encode(("gh" + "p_" + draw.of(BOTH, 36)).encode()).decode()
    return Planted(secret.rstrip("="), f"stored as {secret}")


def _basic(draw: Draw) -> Planted:
    secret = base64.b64encode(f"app:{draw.of(BOTH, 12)}".encode()).decode()
    return Planted(secret.rstrip("="), f"Authorization: Basic {secret}\r\nAccept: */*")


def _aws_pair(draw: Draw) -> Planted:
    secret = draw.of(BOTH + "+/", 38) + draw.of(BOTH, 2)
    name = "AK" + "IA" + draw.of(UPPER, 16)
    return Planted(secret, f"Access key: {name}\nOther: {secret}\n")


def _address(draw: Draw) -> Planted:
    names = ("jane.roe", "m_okafor", "l.haugen77", "tomas-vrba", "yuki.s")
    hosts = ("uni-ulm.de", "mail.posteo.net", "acmeworks.io", "163.com", "kth.se")
    secret = f"{draw.rng.choice(names)}{draw.rng.randrange(90)}@{draw.rng.choice(hosts)}"
    return Planted(
        secret, draw.rng.choice(("Author: J <{0}>", "to={0};", "write {0}.")).format(secret)
    )


def _home(template: str) -> Callable[[Draw], Planted]:
    def make(draw: Draw) -> Planted:
        secret = draw.rng.choice(("mokafor", "jroe", "lhaugen", "tvrba", "yukis")) + draw.of(HEX, 2)
        return Planted(secret, template.replace("@@", secret))

    return make


def _phone(draw: Draw) -> Planted:
    number = draw.rng.choice(
        (
            f"+49 {draw.rng.randrange(151, 179)} {draw.rng.randrange(10**6, 10**7)}",
            f"+1 ({draw.rng.randrange(201, 989)}) 555-{draw.rng.randrange(1000, 9999)}",
            f"({draw.rng.randrange(201, 989)}) 555-{draw.rng.randrange(1000, 9999)}",
            f"+44 20 {draw.rng.randrange(2000, 9999)} {draw.rng.randrange(1000, 9999)}",
        )
    )
    return Planted(number, f"call me: {number} after six")


KINDS: dict[str, Callable[[Draw], Planted]] = {
    "aws_key_id": _shaped("AK", "IA", "U16"),
    "aws_secret_beside_its_id": _aws_pair,
    "github_classic": _shaped("gh", "p_", "B36"),
    "github_app": _shaped("gh", "s_", "B36"),
    "github_fine": _shaped("github", "_pat_", "B22", "_", "B59"),
    "gitlab": _shaped("gl", "pat-", "W20"),
    "openai_project": _shaped("sk-", "proj-", "W48", "T3Blbk", "FJ", "W48"),
    "openai_old": _shaped("sk", "-", "B48"),
    "anthropic": _shaped("sk-", "ant-api03-", "W93", "AA"),
    "openrouter": _shaped("sk-", "or-v1-", "H64"),
    "hex_secret_key": _shaped("sk", "-", "H32"),
    "google_api": _shaped("AI", "za", "W35"),
    "google_oauth": _shaped("ya", "29.", "W80"),
    "slack_bot": _shaped("xo", "xb-", "D12", "-", "D12", "-", "B24"),
    "slack_hook": _shaped("https://hooks.", "slack.com/services/T", "U9", "/B", "U9", "/", "B24"),
    "hugging_face": _shaped("hf", "_", "B34"),
    "stripe": _shaped("sk_", "live_", "B24"),
    "npm": _shaped("np", "m_", "B36"),
    "pypi": _shaped("py", "pi-AgEIcHlwaS5vcmc", "W90"),
    "sendgrid": _shaped("S", "G.", "W22", ".", "W43"),
    "tavily": _shaped("tv", "ly-", "B32"),
    "groq": _shaped("gs", "k_", "B52"),
    "xai": _shaped("xa", "i-", "B80"),
    "perplexity": _shaped("pp", "lx-", "B48"),
    "replicate": _shaped("r8", "_", "B37"),
    "langsmith": _shaped("lsv2", "_pt_", "H32", "_", "H10"),
    "digitalocean": _shaped("dop", "_v1_", "H64"),
    "databricks": _shaped("da", "pi", "H32"),
    "shopify": _shaped("sh", "pat_", "H32"),
    "linear": _shaped("lin", "_api_", "B40"),
    "notion": _shaped("nt", "n_", "B46"),
    "vault": _shaped("hv", "s.", "W95"),
    "telegram": _shaped("D9", ":", "AA", "W33"),
    "unknown_vendor": _shaped("newco", "_live_", "B40"),
    "jwt": _token_of_three,
    "private_key": _private_key,
    "url_password": _named("postgres://app:@@@db.corp.io:5432/main", BOTH, 16),
    "url_token": _named("git clone https://@@@git.corp.io/x.git", BOTH, 40),
    "environment": _named("DB_PASSWORD=@@\nPORT=1", BOTH, 12),
    "assignment": _named('api_key = "@@"  # set', BOTH, 24),
    "hex_assignment": _named("WANDB_API_KEY: @@", HEX, 40),
    "json_field": _named('{"user": "a", "password": "@@", "n": 1}', LOWER, 9),
    "escaped_json": _named('sent "{\\"client_secret\\": \\"@@\\"}" to it', BOTH, 30),
    "header": _named('curl -H "Authorization: Bearer @@" https://api.corp.io', BOTH, 40),
    "own_header": _named("X-Api-Key: @@\r\nAccept: */*", LOWER, 32),
    "query": _named("GET /v1/x?access_token=@@&page=2", BOTH, 30),
    "option": _named("tool login --token @@ --yes", BOTH, 28),
    "curl_user": _named("curl -" + "u admin:@@ https://x.corp.io", BOTH, 14),
    "azure_account": _named("AccountName=x;AccountKey=@@;Endpoint", BOTH + "+/", 86),
    "element": _named("<password>@@</password>", BOTH, 12),
    "basic": _basic,
    "wrapped_assignment": _wrapped,
    "wrapped_key": _wrapped_key,
    "email": _address,
    "home_linux": _home("cd /home/@@/project && ls"),
    "home_mac": _home('File "/Users/@@/x.py", line 3'),
    "home_windows": _home(r"C:\Users\@@\Documents>"),
    "phone": _phone,
}
"""Makers by kind."""

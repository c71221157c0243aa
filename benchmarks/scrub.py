"""Recall, over-redaction and speed of `trajkit scrub`, on secrets and texts made for it.

Recall: `--per-kind` made-up secrets of each kind of tests/key_shapes.py, each in a text of its own,
again inside JSON inside JSON, and in the middle of ordinary text. Over-redaction: the share of
words touched in ordinary texts: sources of Python and of installed packages, the logs of this
repository, and texts that look secret and are none (hashes, ids, lock files, pictures, minified
script). What scanners find in the same texts stands beside it: kingfisher by itself, and
detect-secrets where `make bench` put it. Speed: megabytes of text a second of one core.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import random
import re
import statistics
import sys
import sysconfig
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ROOT / "build" / "peers"
sys.path[:0] = [str(ROOT / "tests"), str(PEERS)]

from key_shapes import KINDS, Draw, Planted  # noqa: E402

from trajkit.secrets.masking import mask  # noqa: E402

WORD = re.compile(r"[\w.+/@:=-]+")
MAX_CHARS = 20_000
SLOW = 7
"""Of the slow peers every so manieth text is given."""
STAGE_RUNS = 5


def main() -> None:
    """Print what was found, what was touched, and how fast."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-kind", type=int, default=100)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--show", action="store_true", help="Show words touched in ordinary text.")
    chosen = parser.parse_args()
    documents = list(ordinary(chosen.documents))
    recall(chosen.per_kind, documents)
    over_redaction(documents, show=chosen.show)
    speed(documents)


def recall(per_kind: int, documents: list[tuple[str, str]]) -> None:
    """Print the share of planted secrets that are gone, by kind where one is left."""
    rng = random.Random(7)
    planted: list[tuple[str, Planted, str]] = []
    for kind, make in KINDS.items():
        for number in range(per_kind):
            one = make(Draw(f"{kind} {number}"))
            planted.append((kind, one, _placed(one.text, number, documents, rng)))
    results = mask([[text] for _, _, text in planted])
    left: Counter[str] = Counter()
    again: list[list[str | None]] = []
    for number, ((kind, one, text), masked) in enumerate(zip(planted, results, strict=True)):
        after = masked.cells.get(0, text)
        again.append([after])
        left[kind] += one.secret in _flat(after)
        if number % per_kind % 3 == 1:
            json.loads(json.loads(after)["arguments"])
    n_second = sum(bool(masked.cells) for masked in mask(again))
    n_all = len(planted)
    print(f"recall {1 - left.total() / n_all:.4f}: {n_all} secrets of {len(KINDS)} kinds")
    for kind, n_left in sorted(left.items()):
        if n_left:
            print(f"  {kind:<28}{n_left} of {per_kind} left")
    print(f"found by a second pass: {n_second}")
    for name, scan in scanners().items():
        some = planted if name == "kingfisher" else planted[::SLOW]
        n_found = sum(one.secret in "\n".join(scan(one.text)) for _, one, _ in some)
        print(f"  {name} alone finds {n_found / len(some):.3f}")


def _placed(text: str, number: int, documents: list[tuple[str, str]], rng: random.Random) -> str:
    match number % 3:
        case 0:
            return text
        case 1:
            inner = json.dumps({"output": f"first line\n{text}\nlast", "n": number})
            return json.dumps({"name": "run", "arguments": inner})
    around = rng.choice(documents)[1][:2_000]
    return f"{around}\n{text}\n{around[:300]}"


def _flat(text: str) -> str:
    return text.replace("\\", "")


def over_redaction(documents: list[tuple[str, str]], *, show: bool) -> None:
    """Print the share of words touched by kind of text, and by kind of finding."""
    results = mask([[text] for _, text in documents])
    n_words: Counter[str] = Counter()
    touched: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for (origin, text), masked in zip(documents, results, strict=True):
        n_words[origin] += sum(1 for _ in WORD.finditer(text))
        touched[origin] += masked.replaced.total()
        kinds.update(masked.replaced)
        if show and masked.cells:
            for old, new in zip(text.split("\n"), masked.cells[0].split("\n"), strict=False):
                if old != new:
                    print(f"    {origin}: {old.strip()[:100]!r} -> {new.strip()[:80]!r}")
    share = touched.total() / n_words.total()
    print(f"\ntouched {share:.5%} of {n_words.total()} words in {len(documents)} ordinary texts")
    for origin, count in n_words.items():
        print(f"  {origin:<28}{touched[origin] / count:.5%} ({touched[origin]} of {count})")
    print(f"  by kind: {dict(kinds.most_common())}")
    for name, scan in scanners().items():
        some = documents if name == "kingfisher" else documents[::SLOW]
        n_found = sum(len(scan(text)) for _, text in some)
        n_seen = sum(1 for _, text in some for _ in WORD.finditer(text))
        print(f"  {name} alone touches {n_found / n_seen:.5%}")


def speed(documents: list[tuple[str, str]]) -> None:
    """Print megabytes a second on one core: of masking, of the stage, of the scanner alone."""
    documents = [one for one in documents if one[0] != "look-alikes"]
    episodes = [[text[i : i + 4_000] for i in range(0, len(text), 4_000)] for _, text in documents]
    calls = [
        [json.dumps({"name": "write", "arguments": {"text": cell}}) for cell in cells]
        for cells in episodes
    ]
    mask([["warm"]])
    print()
    for name, texts in (("plain cells", episodes), ("JSON cells", calls)):
        size = sum(len(cell.encode()) for cells in texts for cell in cells)
        start = time.process_time()
        mask(texts)
        print(f"{name:<28}{size / 1e6 / (time.process_time() - start):.0f} MB/s")
    for name, scan in scanners().items():
        some = documents[:: 1 if name == "kingfisher" else SLOW]
        start = time.process_time()
        for _, text in some:
            scan(text)
        size = sum(len(text.encode()) for _, text in some)
        print(f"{name + ' alone':<28}{size / 1e6 / (time.process_time() - start):.1f} MB/s")
    stage()


def stage() -> None:
    """Print the speed of the whole stage on a store of real logs, varied (`corpus.py`)."""
    import polars as pl
    from corpus import Corpus

    from trajkit.ingest import ingest
    from trajkit.scrub import EPISODE_COLUMNS, STEP_COLUMNS, scrub
    from trajkit.store import Store

    with tempfile.TemporaryDirectory() as folder:
        raw, out = Path(folder) / "raw", Path(folder) / "out"
        Corpus().write(Path(folder) / "logs", 60_000_000)
        ingest((str(Path(folder) / "logs"),), raw, quiet=True)
        store = Store(raw)
        size = sum(
            pl.read_parquet(file)[name].str.len_bytes().sum() or 0
            for table, names in (("trajectories", EPISODE_COLUMNS), ("steps", STEP_COLUMNS))
            for file in store.files(table)
            for name in names
        )
        seconds = []
        for _ in range(STAGE_RUNS):
            start = time.process_time(), time.perf_counter()
            report = scrub(raw, out, overwrite=True, quiet=True)
            seconds.append((time.process_time() - start[0], time.perf_counter() - start[1]))
        of_processor, of_clock = (
            size / 1e6 / statistics.median(one) for one in zip(*seconds, strict=True)
        )
        print(
            f"{'stage, ' + str(report.read) + ' episodes':<28}{of_processor:.0f} MB/s"
            f" ({of_clock:.0f} by the clock; median of {STAGE_RUNS} runs)"
        )


def scanners() -> dict[str, Callable[[str], list[str]]]:
    """Return peers that are installed, as functions from a text to the secrets in it."""
    from kingfisher_sdk import Rules, Scanner

    kingfisher = Scanner(Rules())
    found: dict[str, Callable[[str], list[str]]] = {
        "kingfisher": lambda text: [f.secret for f in kingfisher.scan(text) if f.visible]
    }
    try:
        from detect_secrets import SecretsCollection
        from detect_secrets.settings import default_settings
    except ImportError:
        return found

    def detect_secrets(text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder, default_settings():
            file = Path(folder) / "text.txt"
            file.write_text(text, encoding="utf-8", errors="replace")
            collection = SecretsCollection()
            collection.scan_file(str(file))
            return [secret.secret_value or "" for _, secret in collection]

    return found | {"detect-secrets": detect_secrets}


def ordinary(n_documents: int) -> Iterator[tuple[str, str]]:
    """Give texts as `(where from, text)`, each at most 20,000 characters."""
    rng = random.Random(3)
    library = Path(sysconfig.get_paths()["stdlib"])
    packages = Path(sysconfig.get_paths()["purelib"])
    own = sorted(f for f in library.rglob("*.py") if "site-packages" not in f.parts)
    others = sorted(
        file
        for pattern in ("*.py", "*.pyi", "*.js", "*.json", "*.md", "METADATA", "*.toml", "*.html")
        for file in packages.rglob(pattern)
    )
    logs = sorted(f for f in (ROOT / "examples" / "logs").rglob("*.json*") if f.is_file())
    for origin, files, share in (
        ("standard library", own, 0.3),
        ("installed packages", others, 0.4),
        ("logs of the repository", logs, 0.1),
    ):
        wanted = int(n_documents * share)
        for number in range(wanted):
            text = rng.choice(files).read_text(encoding="utf-8", errors="replace")
            at = rng.randrange(max(1, len(text) - MAX_CHARS))
            if number % 4:
                at = text.rfind("\n", 0, at) + 1
            yield origin, text[at : at + MAX_CHARS]
    for number in range(n_documents - int(n_documents * 0.8)):
        yield "look-alikes", LOOK_ALIKES[number % len(LOOK_ALIKES)](Draw(number))


def _hashes(draw: Draw) -> str:
    return "\n".join(
        f"{hashlib.new(kind, str(n).encode()).hexdigest()}  dist/file-{n}.tar.gz"
        for n in range(60)
        for kind in (draw.rng.choice(("md5", "sha1", "sha256")),)
    )


def _ids(draw: Draw) -> str:
    return "\n".join(
        f'{{"id": "{uuid.UUID(int=draw.rng.getrandbits(128))}", "call": "call_{_any(draw, 24)}", '
        f'"tool_use_id": "toolu_01{_any(draw, 22)}", "message": "msg_01{_any(draw, 22)}", '
        f'"session_key": {n}, "max_tokens": 4096, "total_tokens": {n * 7}, "token": null}}'
        for n in range(40)
    )


def _any(draw: Draw, n_chars: int) -> str:
    alphabet = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ123456789"
    return draw.of(alphabet, n_chars)


def _picture(draw: Draw) -> str:
    data = base64.b64encode(draw.rng.randbytes(6_000)).decode()
    return f'<img src="data:image/png;base64,{data}" alt="plot">'


def _lock(draw: Draw) -> str:
    entries = {
        f"node_modules/package-{n}": {
            "version": f"{n}.1.{n % 7}",
            "resolved": f"https://registry.example/package-{n}/-/package-{n}-{n}.1.tgz",
            "integrity": "sha512-" + base64.b64encode(draw.rng.randbytes(64)).decode(),
        }
        for n in range(50)
    }
    hashed = "\n".join(
        f'    {{file = "p-{n}.whl", hash = "sha256:{draw.rng.randbytes(32).hex()}"}},'
        for n in range(30)
    )
    sums = "\n".join(
        f"example.test/m{n} v1.{n}.0 h1:{base64.b64encode(draw.rng.randbytes(32)).decode()}"
        for n in range(30)
    )
    return json.dumps(entries, indent=2) + hashed + sums


def _minified(draw: Draw) -> str:
    names = [draw.of("abcdefghijklmnop", 1) + str(n % 9) for n in range(40)]
    return "".join(
        f"function {rng_name}(e,t){{var n=e.token||t.key;return n?this.{rng_name}.set(n,"
        f'"{draw.of("abcdef0123456789", 8)}"):o({n},{{password:!0,secretKey:n}})}}'
        for n, rng_name in enumerate(names * 4)
    )


def _code(draw: Draw) -> str:
    return "\n".join(
        (
            'password = os.environ["DB_PASSWORD"]',
            "token = self.tokenizer.next_token(token_type=TokenType.NAME)",
            'api_key: str = Field(default="", description="your-api-key-here")',
            "Authorization: Bearer <your token>",
            "export API_KEY=$OTHER_KEY",
            'if token == "identifier" and secret is None: raise ValueError("bad password")',
            "git clone git@github.com:org/repo.git && pip install lodash@4.17.21",
            "https://user:pass" + "word@localhost/ http://host:8080/@scope/name",
            f"commit {draw.rng.randbytes(20).hex()} (HEAD -> main)",
            "max_tokens=4096 token_count=12 key_id=7 primary_key=True sort_key='name'",
            "/home/user/app /Users/runner/work C:\\Users\\Public /home/index.html",
            "2024-01-05T10:00:00+02:00 +1234 -567 10.0.0.1:8080 1-2-3 555-1234",
            "<input type='password' name='password' placeholder='Enter your password'>",
            "css-1q2w3e sk-learn sk-toggleable__content-arrow-estimator-2 hf_hub_download",
        )
        * 6
    )


LOOK_ALIKES = (_hashes, _ids, _picture, _lock, _minified, _code)

if __name__ == "__main__":
    main()

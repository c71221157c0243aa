"""Runs that read their answer are found by what they did; work as usual is not."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
from chats import chat, ingested

from trajkit.filters import filter_episodes
from trajkit.filters.leaks import leaks_of
from trajkit.filters.shell import commands, texts_run
from trajkit.store import Store

LOG = """commit 1111aaa2222bbb3333ccc4444ddd5555eee66660
Author: Ada <ada@mill.example>
Date:   Tue Mar 3 10:00:00 2020 +0100

    Grind finer
"""
LATER = LOG.replace("2020", "2021").replace("1111aaa2222", "9999fff8888")
EARLIER = LOG.replace("2020", "2019").replace("1111aaa2222", "7777eee6666")
OWN = {"meta": '{"instance_id": "mill-works__grinder-41"}'}


def kinds(*steps: str | tuple[str, str], head: dict[str, str] | None = None) -> list[str]:
    """Return the kinds found in a run of shell commands, some with what the screen showed."""
    pairs = [step if isinstance(step, tuple) else (step, "") for step in steps]
    run = [(number, "code", action, seen) for number, (action, seen) in enumerate(pairs)]
    return sorted({kind for _, kind, _ in leaks_of(head or {}, run)})


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        (["git log --all --oneline -S 'grind(' -- mill/", "git show 4be7a11:mill/a.py"], "history"),
        (["git log --all -G grind", "git checkout 4be7a11 -- mill/a.py"], "history"),
        (["git log --all -p -S 'grind('"], "history"),
        (["git fetch origin", "git diff HEAD origin/main -- mill/"], "history"),
        (["git fetch upstream && git cherry-pick 4be7a11"], "history"),
        (["git show origin/main:mill/a.py > mill/a.py"], "history"),
        (["git checkout -b mine upstream/main"], "history"),
        (["git fsck --lost-found --no-reflogs", "git show 4be7a11"], "history"),
        (["git reflog", "git diff HEAD@{2}"], "history"),
        (["git -C /repo rev-list --all | head", "git -C /repo cat-file -p 4be7a11"], "history"),
        (["cd /repo && git pull"], "history"),
        (["git fetch origin pull/7/head:theirs", "git checkout theirs -- mill"], "history"),
        (["for c in $(git rev-list --all); do git show $c:mill/a.py; done"], "history"),
        (["git grep grind $(git rev-list --all) -- mill"], "history"),
        (["bash -lc 'git log --all -S x; git show 4be7a11'"], "history"),
        ([("git log -1", LOG), ("git show 4be7a11", LATER)], "history"),
        (["curl -sL https://github.com/mill-works/grinder/pull/7.patch | git apply"], "network"),
        (["wget -qO- https://github.com/mill-works/grinder/commit/4be7a11.diff"], "network"),
        (["gh pr diff 7 --repo mill-works/grinder"], "network"),
        (
            ["python3 - <<'E'\nimport requests\nprint(requests.get("
             "'https://api.github.com/repos/mill-works/grinder/pulls/7/files').text)\nE"],
            "network",
        ),
        (
            ["sed -n 1,9p mill/a.py",
             "curl https://raw.githubusercontent.com/mill-works/grinder/main/mill/a.py"],
            "network",
        ),
        (["git clone https://github.com/laude-institute/terminal-bench /tmp/t"], "network"),
        (["pip download grinder==3.1 --no-deps", "unzip -q grinder*.whl -d w",
          "diff -r w/grinder/ src/"], "package"),
        (["npm pack grinder@latest", "tar xf grinder-3.1.tgz", "cat package/x grinder-3/a.js"],
         "package"),
    ],
)  # fmt: skip
def test_a_run_that_reads_its_answer_is_found(
    steps: list[str | tuple[str, str]], kind: str
) -> None:
    """Case CT01."""
    assert kinds(*steps) == [kind]


def test_a_newer_package_of_the_runs_own_repository_is_found() -> None:
    steps = ["pip install --upgrade grinder", "cat /lib/site-packages/grinder/a.py"]
    assert kinds(*steps, head=OWN) == ["package"]
    assert kinds(*steps, head={"meta": '{"instance_id": "other__thing-1"}'}) == []
    assert kinds("pip install -e .", steps[1], head=OWN) == []


@pytest.mark.parametrize(
    "steps",
    [
        [
            "git log -5 -- mill/a.py",
            "git blame mill/a.py",
            "git diff",
            "git stash",
            "git stash pop",
        ],
        ["git show HEAD", "git show HEAD~2:mill/a.py", "git diff HEAD~1", "git checkout -- mill"],
        [("git log --oneline -3", "4be7a11 Grind\n1234567 Mill"), "git show 4be7a11"],
        [("git blame mill/a.py", "4be7a11c (Ada 2020-03-03 1) x"), "git show 4be7a11c"],
        ["git log --all --oneline"],
        [
            ("git log --all --oneline", "4be7a11 (HEAD -> main) Grind\n1234567 Mill"),
            "git show 1234567",
        ],
        [("git log -1", LOG), "git log --all -S x", ("git show 7777eee6666", EARLIER)],
        [("git commit -qam x", "[main 4be7a11] x"), "git log --all", "git show 4be7a11"],
        ["git checkout -b mine", "git commit -qam x", "git switch main", "git cherry-pick mine"],
        ["git cherry-pick --abort"],
        [("git pull", "There is no tracking information for the current branch.")],
        [("git show origin/main:a", "fatal: invalid object name 'origin/main'.")],
        [("curl -L https://github.com/o/r/pull/1.diff", "curl: (6) Could not resolve host: g")],
        ["echo 'git log --all -p' >> notes.md", "grep -rn 'git cherry-pick abc1234' docs"],
        ["cat > help.sh <<'E'\ngit show origin/main\ncurl https://github.com/o/r/pull/1.diff\nE"],
        ["# git cherry-pick 4be7a11\nls"],
        ["python -c \"print('https://github.com/o/r/pull/1')\""],
        ["git show $(git rev-parse HEAD)"],
        ["curl https://raw.githubusercontent.com/nvm-sh/nvm/v0.39.0/install.sh | bash"],
        ["curl https://github.com/mill-works/grinder/issues/7"],
        ["pip install requests", "pip download wheel", "unzip data.zip", "cat data/x.txt"],
        ["git push origin main", "git remote -v", "git branch -a", "git diff origin/main"],
        ["git clone https://github.com/mill-works/grinder"],
        ["git merge feature", "git rebase main", "git reset --hard HEAD~1"],
    ],
)
def test_work_as_usual_is_no_leak(steps: list[str | tuple[str, str]]) -> None:
    assert kinds(*steps) == []


def test_a_patch_of_another_repository_is_no_leak_when_the_own_one_is_known() -> None:
    patch = "curl -L https://github.com/{}/pull/7.diff"
    assert kinds(patch.format("gear/box"), head=OWN) == []
    assert kinds(patch.format("fork/grinder"), head=OWN) == ["network"]


def test_what_a_tool_writes_to_a_file_is_no_command() -> None:
    call = {"name": "edit", "arguments": {"path": "a.sh", "file_text": "git cherry-pick 4be7a11"}}
    assert list(texts_run("tool_call", json.dumps(call))) == []
    listed = {"name": "shell", "arguments": {"command": ["bash", "-lc", "git pull"]}}
    assert list(texts_run("tool_call", json.dumps(listed))) == ["git pull"]
    opened = {"name": "WebFetch", "arguments": {"url": "https://a.example/x"}}
    assert list(texts_run("tool_call", json.dumps(opened))) == ["open https://a.example/x"]


def test_keystrokes_make_the_lines_they_type() -> None:
    keys = [{"keystrokes": "git fet"}, {"keystrokes": "ch"}, {"keystrokes": "Enter"}]
    typed = "".join(texts_run("keystrokes", json.dumps(keys)))
    assert commands(typed) == [["git", "fetch"]]


def test_quotes_that_never_close_are_split_all_the_same() -> None:
    assert ["git", "pull"] in commands("echo it's; git pull")


def leaky(**columns: object) -> dict[str, object]:
    turns = [
        ("bash", {"command": "git log --all -S grind"}, "commit 4be7a11"),
        ("bash", {"command": "git show 4be7a11"}, "diff --git a/mill.py b/mill.py"),
        ("bash", {"command": "git diff"}, "+x"),
    ]
    return chat(turns, **columns)


def test_all_steps_of_a_solved_run_are_marked_and_the_evidence_can_be_queried(
    tmp_path: Path,
) -> None:
    honest = chat([("bash", {"command": "git diff"}, "a")] * 2, resolved=True)
    rows = [leaky(resolved=True), leaky(resolved=False), leaky(), honest]
    raw = ingested(tmp_path, rows, "swe")
    report = filter_episodes(raw, tmp_path / "out", quiet=True)
    assert report.kept == 4
    assert report.extra["steps_marked"] == {"leaked_answer": 3}
    assert report.extra["leaks"] == {"history": 3}
    store = Store(tmp_path / "out")
    with duckdb.connect() as connection:
        evidence = connection.execute(
            "select outcome_status, meta->'$.leaked_answer' from read_parquet(?) "
            "where json_exists(meta, '$.leaked_answer') order by origin_line",
            [str(store.files("trajectories")[0])],
        ).fetchall()
    assert [status for status, _ in evidence] == ["success", "failure", "unknown"]
    assert json.loads(evidence[0][1]) == [
        {"step_index": 1, "kind": "history", "evidence": "git show 4be7a11"}
    ]
    steps = store.read("steps", store.parts()[0])
    assert steps["observation"].to_list() == pl.read_parquet(raw / "steps")["observation"].to_list()


def test_a_run_without_a_verdict_is_marked_on_request_and_a_failed_one_never(
    tmp_path: Path,
) -> None:
    raw = ingested(tmp_path, [leaky(), leaky(resolved=False)], "swe")
    report = filter_episodes(raw, tmp_path / "a", leaks_in="unless_failed", quiet=True)
    assert report.extra["steps_marked"] == {"leaked_answer": 3}
    report = filter_episodes(
        raw, tmp_path / "b", leaks_in="unless_failed", keep=("leaked_answer",), quiet=True
    )
    assert report.extra["steps_marked"] == {}


def test_the_recorded_logs_hold_no_leak(raw_store: Path, tmp_path: Path) -> None:
    report = filter_episodes(raw_store, tmp_path / "out", leaks_in="unless_failed", quiet=True)
    assert report.extra["leaks"] == {}
    assert "never_ran" not in report.dropped
